import { literal } from './literals.ts';
import { pluralOf } from './plural.ts';
import type { ProjectOptions } from './project-options.ts';

export const TSCONFIG = `{
  "compilerOptions": {
    "target": "es2024",
    "module": "nodenext",
    "strict": true,
    "noUncheckedIndexedAccess": true,
    "exactOptionalPropertyTypes": true,
    "verbatimModuleSyntax": true,
    "erasableSyntaxOnly": true,
    "allowImportingTsExtensions": true,
    "noEmit": true,
    "skipLibCheck": true,
    "types": ["node"]
  },
  "include": ["src"]
}
`;

/** The texts of a project's files. A kind of one's own has a text in its spec, one of Kubernetes a label. */
export class ProjectTexts {
  readonly plural: string;
  readonly #options: ProjectOptions;
  /** The spec of the sample, as JavaScript and YAML; undefined: it has none. */
  readonly #spec: string | undefined;
  /** `v1`, `example.com/v1` */
  readonly #apiVersion: string;
  /** The name of the controller as a variable. */
  readonly #variable: string;

  /** @param spec of the sample. */
  constructor(options: ProjectOptions, spec: object | undefined) {
    const { group, kind, version } = options.kind;
    this.#options = options;
    this.#spec = spec && literal(spec);
    this.plural = pluralOf(kind);
    this.#apiVersion = group === '' ? version : `${group}/${version}`;
    this.#variable = controllerVariable(options.name);
  }

  manifest(): string {
    const { bringsNode, kind, name, version } = this.#options;
    const check = kind.own ? 'tsc && levelhook crds --check' : 'tsc';
    return `${JSON.stringify(
      {
        name,
        version: '0.1.0',
        private: true,
        type: 'module',
        engines: { node: '>=24' },
        // Without it npm asks before it runs the script that fetches Node.
        ...(bringsNode ? { allowScripts: { node: true } } : {}),
        scripts: {
          dev: 'levelhook dev',
          test: "vitest run --exclude '**/*.cluster.test.ts'",
          'test:cluster': 'vitest run cluster',
          check,
          ...(kind.own ? { crds: 'levelhook crds' } : {}),
          start: 'node src/node.ts',
        },
        dependencies: {
          '@hono/node-server': '^2.1.8',
          '@levelhook/function': `^${version}`,
          ioredis: '^6.0.0',
          undici: '^8.12.4',
        },
        devDependencies: {
          '@types/node': '^24.19.2',
          levelhook: `^${version}`,
          ...(bringsNode ? { node: '^24.21.0' } : {}),
          ...(kind.own ? { 'ts-json-schema-generator': '^2.10.0' } : {}),
          typescript: '^7.0.2',
          vitest: '^5.1.1',
          yaml: '^2.9.1',
        },
      },
      null,
      2,
    )}\n`;
  }

  kinds(): string {
    return `${KINDS_IMPORT}\n${this.kindType()}`;
  }

  /** The type of a kind of one's own, with its markers. */
  kindType(): string {
    const { kind } = this.#options.kind;
    return `export interface ${kind}Spec {
  /** The text of the ConfigMap. */
  text: string;
  /**
   * How often the text stands there.
   * @format int32
   * @minimum 1
   * @maximum 10
   * @default 1
   */
  times?: number;
}

/**
 * Keeps a ConfigMap with a text.
 * @kind ${this.#apiVersion}
 * @printColumn
 *   Ready string .status.conditions[?(@.type=="Ready")].status
 */
export interface ${kind} extends KubernetesObject {
  spec: ${kind}Spec;
  status?: {
    /**
     * @listType map
     * @listMapKey type
     */
    conditions?: readonly Condition[];
  };
}

${this.#resource()}`;
  }

  #resource(): string {
    const { kind } = this.#options.kind;
    const plural = this.plural === `${kind.toLowerCase()}s` ? '' : `, { plural: '${this.plural}' }`;
    return `export const ${kind}: Resource<${kind}> = resource<${kind}>('${this.#apiVersion}', '${kind}'${plural});\n`;
  }

  definition(): string {
    const { group, kind, version } = this.#options.kind;
    const head = this.#options.language === 'typescript' ? '# Made by `levelhook crds`: do not edit.\n' : '';
    return `${head}apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: ${this.plural}.${group}
spec:
  group: ${group}
  scope: Namespaced
  names:
    kind: ${kind}
    plural: ${this.plural}
    singular: ${kind.toLowerCase()}
    listKind: ${kind}List
  versions:
    - name: ${version}
${DEFINED_VERSION}`;
  }

  controller(): string {
    return this.#options.kind.own ? this.#ownController() : this.#builtInController();
  }

  #ownController(): string {
    const { kind, name } = { ...this.#options, kind: this.#options.kind.kind };
    return `import {
  controller,
  equal,
  generationChanged,
  isControlledBy,
  setControllerReference,
  setStatusCondition,
  TerminalError,
} from '@levelhook/function';
import { ConfigMap } from '@levelhook/function/kinds';
import { ${kind} } from './kinds.ts';

/** Keeps a ConfigMap, NAME-text, with the text of each ${kind}, and says so in the status. */
export const ${this.#variable} = controller({
  name: '${name}',
  // The controller's own writes of the status wake no key.
  for: { resource: ${kind}, predicate: generationChanged },
  owns: [ConfigMap],
  // Nothing else is sent, and \`levelhook manifest\` prints these rights.
  writes: [
    { resource: ConfigMap, verbs: ['create', 'update'] },
    { resource: ${kind}, subresource: 'status', verbs: ['update'] },
  ],
}).reconcile(async (request, { api, cache, log }) => {
  const found = await cache.get(${kind}, request);
  // The garbage collector deletes the ConfigMap with its ${kind}.
  if (!found || found.metadata.deletionTimestamp) return;

  const { name, namespace = '', generation: observedGeneration = 0 } = found.metadata;
  const key = { namespace, name: \`\${name}-text\` };
  const data = { text: found.spec.text.repeat(found.spec.times ?? 1) };
${this.#keepsChild()}
  const before = found.status?.conditions;
  const ready = { type: 'Ready', status: 'True', reason: 'Written', observedGeneration } as const;
  const conditions = setStatusCondition(before, ready);
  if (conditions !== before) await api.replace(${kind}, { ...found, status: { conditions } }, 'status');
});
`;
  }

  #builtInController(): string {
    const { name } = this.#options;
    const { kind } = this.#options.kind;
    const isConfigMap = kind === 'ConfigMap';
    const imports = isConfigMap ? 'ConfigMap' : `ConfigMap, ${kind}`;
    return `import { controller, equal, isControlledBy, setControllerReference, TerminalError } from '@levelhook/function';
import { ${imports} } from '@levelhook/function/kinds';

/** Keeps a ConfigMap, NAME-labels, with the labels of each ${kind} that has the label \`${name}: "true"\`. */
export const ${this.#variable} = controller({
  name: '${name}',
  for: { resource: ${kind}, labelSelector: { matchLabels: { ${keyOf(name)}: 'true' } } },
  owns: [ConfigMap],
  // Nothing else is sent, and \`levelhook manifest\` prints these rights.
  writes: [{ resource: ConfigMap, verbs: ['create', 'update'] }],
}).reconcile(async (request, { api, cache, log }) => {
  const found = await cache.get(${kind}, request);
  // The garbage collector deletes the ConfigMap with its ${kind}.
  if (!found || found.metadata.deletionTimestamp) return;

  const { labels = {}, name, namespace = '' } = found.metadata;
  const key = { namespace, name: \`\${name}-labels\` };
  // A key of a ConfigMap has no slash.
  const data = Object.fromEntries(Object.entries(labels).map(([label, value]) => [label.replace('/', '_'), value]));
${this.#keepsChild()}});
`;
  }

  /** Writes the ConfigMap `key` with `data`, of which `found` is the owner. */
  #keepsChild(): string {
    const { kind } = this.#options.kind;
    return `  const child = await cache.get(ConfigMap, key);
  if (child && !isControlledBy(child, found)) {
    throw new TerminalError(\`the ConfigMap \${key.name} belongs to another owner\`);
  }
  if (!child) {
    await api.create(ConfigMap, setControllerReference(${kind}, found, { metadata: key, data }));
    log.info({ child: key.name }, 'created');
  } else if (!equal(child.data, data)) {
    await api.replace(ConfigMap, { ...child, data });
  }
`;
  }

  entry(): string {
    return `import { serveController } from '@levelhook/function/node';
import { ${this.#variable} } from './${this.#options.name}.ts';

await serveController(${this.#variable});
`;
  }

  /** The object of the tests and of the sample. */
  #object(indent: string): string {
    const { kind, name } = { ...this.#options, kind: this.#options.kind.kind };
    const labels = this.#options.kind.own ? '' : `, labels: { ${keyOf(name)}: 'true', color: 'blue' }`;
    const spec = this.#spec === undefined ? '' : `\n${indent}  spec: ${this.#spec},`;
    return `{
${indent}  apiVersion: '${this.#apiVersion}',
${indent}  kind: '${kind}',
${indent}  metadata: { namespace: 'default', name: 'hello'${labels} },${spec}
${indent}}`;
  }

  #childName(): string {
    return this.#options.kind.own ? 'hello-text' : 'hello-labels';
  }

  #data(): string {
    return this.#options.kind.own ? `{ text: 'Hello. ' }` : `{ ${keyOf(this.#options.name)}: 'true', color: 'blue' }`;
  }

  test(): string {
    const { kind, name } = this.#options;
    const variable = this.#variable;
    const own = kind.own;
    return `import { ConfigMap } from '@levelhook/function/kinds';
import { MemoryApiserver,${own ? ' readDefinitions,' : ''} runReconciler } from 'levelhook/testing/reconciler';
import { expect, it } from 'vitest';
import { ${variable} } from './${name}.ts';

const key = { namespace: 'default', name: 'hello' };
const childKey = { namespace: 'default', name: '${this.#childName()}' };
const object = ${this.#object('')};

it('makes the ConfigMap, and then leaves it alone', async () => {
  const apiserver = new MemoryApiserver({ objects: [object]${own ? ', definitions: await readDefinitions()' : ''} });
  const run = () => runReconciler(${variable}, key, { apiserver });
  expect((await run()).outcome).toMatchObject({ status: 'done' });
  expect(apiserver.object(ConfigMap, childKey)?.data).toEqual(${this.#data()});
  expect((await run()).writes).toEqual([]);
});

it('does not touch the ConfigMap of another owner', async () => {
  const taken = { apiVersion: 'v1', kind: 'ConfigMap', metadata: childKey, data: { mine: 'yes' } };
  const apiserver = new MemoryApiserver({ objects: [object, taken] });
  const { outcome, writes } = await runReconciler(${variable}, key, { apiserver });
  expect(outcome).toMatchObject({ status: 'terminal' });
  expect(writes).toEqual([]);
});
`;
  }

  clusterTest(): string {
    const { name } = this.#options;
    const { kind, own } = this.#options.kind;
    const variable = this.#variable;
    const kinds = own || kind === 'ConfigMap' ? 'ConfigMap' : `ConfigMap, ${kind}`;
    const metadata = own ? 'key' : `{ ...key, labels: { ${keyOf(name)}: 'true', color: 'blue' } }`;
    const isLong = !own && this.#spec !== undefined;
    const spec = this.#spec === undefined ? '' : `, spec: ${this.#spec}`;
    const object = isLong
      ? `{\n    metadata: ${metadata},\n    spec: ${this.#spec},\n  }`
      : `{ metadata: ${metadata}${spec} }`;
    return `import { ${kinds} } from '@levelhook/function/kinds';
import { ${own ? 'readDefinitions, ' : ''}RealApiserver, runReconciler, startControlPlane, testContext } from 'levelhook/testing';
import { afterAll, beforeAll, expect, it } from 'vitest';
${own ? `import { ${kind} } from './kinds.ts';\n` : ''}import { ${variable} } from './${name}.ts';

// A real apiserver: its defaults, its validation and its refusals. It starts in some five seconds.

const key = { namespace: 'default', name: 'hello' };
const childKey = { namespace: 'default', name: '${this.#childName()}' };

let plane: Awaited<ReturnType<typeof startControlPlane>>;
let apiserver: RealApiserver;

beforeAll(async () => {
  plane = await startControlPlane();
  apiserver = new RealApiserver(plane.kubeconfig);
${own ? '  await apiserver.define(await readDefinitions());\n' : ''}  const { api } = testContext({ apiserver });
  await api.create(${kind}, ${object});
}, 600_000);

afterAll(() => plane?.stop());

it('makes the ConfigMap, and then leaves it alone', async () => {
  const run = () => runReconciler(${variable}, key, { apiserver });
  expect((await run()).outcome).toMatchObject({ status: 'done' });
  const { api } = testContext({ apiserver });
  expect((await api.get(ConfigMap, childKey))?.data).toEqual(${this.#data()});
  expect((await run()).writes).toEqual([]);
});
`;
  }

  sample(): string {
    const { name } = this.#options;
    const { kind, own } = this.#options.kind;
    const labels = own ? '' : `\n  labels: { ${name}: 'true', color: blue }`;
    return `apiVersion: ${this.#apiVersion}
kind: ${kind}
metadata:
  namespace: default
  name: hello${labels}
${this.#spec === undefined ? '' : `spec: ${this.#spec}\n`}`;
  }

  values(): string {
    const { language, name } = this.#options;
    const { group, kind, own } = this.#options.kind;
    const verb = language === 'go' ? 'patch' : 'update';
    const status = own
      ? `\n      - { apiGroups: [${group}], resources: [${this.plural}/status], verbs: [${verb}] }`
      : '';
    const predicate = own
      ? 'predicate: { changed: generation } }'
      : `labelSelector: { matchLabels: { ${name}: 'true' } } }`;
    return `# Values of the chart levelhook-functions.
functions:
  ${name}:
    image: registry.example.com/${name}:0.1.0
    # As \`levelhook manifest\` prints it.
    spec:
      for: { apiVersion: ${this.#apiVersion}, kind: ${kind}, ${predicate}
      owns: [{ apiVersion: v1, kind: ConfigMap }]
      writes:
        - { apiVersion: v1, kind: ConfigMap, verbs: [create, ${verb}] }${own ? `\n        - { apiVersion: ${this.#apiVersion}, kind: ${kind}, subresource: status, verbs: [${verb}] }` : ''}
    # What it reads in the cache, and what it may do besides.
    reads:
      - { apiGroups: ['${group}'], resources: [${this.plural}] }
      - { apiGroups: [''], resources: [configmaps] }
    rules:
      - { apiGroups: [''], resources: [configmaps], verbs: [create, ${verb}] }${status}
      # For the owner reference, which OpenShift checks.
      - { apiGroups: ['${group}'], resources: [${this.plural}/finalizers], verbs: [update] }
`;
  }

  dockerfile(): string {
    const lock = this.#options.packageManager === 'pnpm' ? 'pnpm-lock.yaml' : 'package-lock.json';
    const install =
      this.#options.packageManager === 'pnpm'
        ? 'RUN npm install --global pnpm && pnpm install --prod --frozen-lockfile'
        : 'RUN npm ci --omit=dev --no-audit --no-fund';
    return `FROM docker.io/library/node:24-bookworm-slim AS build
WORKDIR /app
COPY package.json ${lock} ./
${install}
COPY src src

FROM gcr.io/distroless/nodejs24-debian12:nonroot
COPY --from=build /app /app
WORKDIR /app
ENV NODE_ENV=production HOST=0.0.0.0 PORT=8080
USER 65532:65532
EXPOSE 8080
CMD ["src/node.ts"]
`;
  }
}

/** What the types of kinds need. */
const KINDS_IMPORT =
  "import { type Condition, type KubernetesObject, type Resource, resource } from '@levelhook/function';\n";

/** The variable of the controller `name`. */
export function controllerVariable(name: string): string {
  return name.replaceAll(/-+([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
}

/** As prettier writes it in an object. */
function keyOf(name: string): string {
  return /^[a-z][a-z0-9]*$/.test(name) ? name : `'${name}'`;
}

/** The definition that `levelhook crds` makes of `kinds()`, behind the name of the version. */
const DEFINED_VERSION = `      served: true
      storage: true
      subresources:
        status: {}
      additionalPrinterColumns:
        - name: Ready
          type: string
          jsonPath: .status.conditions[?(@.type=="Ready")].status
        - name: Age
          type: date
          jsonPath: .metadata.creationTimestamp
      schema:
        openAPIV3Schema:
          type: object
          description: Keeps a ConfigMap with a text.
          required:
            - spec
          properties:
            apiVersion:
              type: string
            kind:
              type: string
            metadata:
              type: object
            spec:
              type: object
              required:
                - text
              properties:
                text:
                  type: string
                  description: The text of the ConfigMap.
                times:
                  type: integer
                  description: How often the text stands there.
                  format: int32
                  minimum: 1
                  maximum: 10
                  default: 1
            status:
              type: object
              properties:
                conditions:
                  type: array
                  items:
                    type: object
                    required:
                      - type
                      - status
                      - lastTransitionTime
                      - reason
                      - message
                    description: "\`metav1.Condition\`: the state of one aspect of an object: true, false or unknown. At most one of each type."
                    properties:
                      type:
                        type: string
                      status:
                        type: string
                        enum:
                          - "True"
                          - "False"
                          - Unknown
                      observedGeneration:
                        type: integer
                        description: "\`metadata.generation\` of the object that was examined. If it is older than the object's, the condition is out of date."
                        format: int64
                      lastTransitionTime:
                        type: string
                        description: When \`status\` last changed. RFC 3339, to the second.
                        format: date-time
                      reason:
                        type: string
                        description: One word in CamelCase, for machines.
                      message:
                        type: string
                  x-kubernetes-list-type: map
                  x-kubernetes-list-map-keys:
                    - type
`;
