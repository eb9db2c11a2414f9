import { goLibrary, pythonLibrary } from './libraries.ts';
import { pluralOf } from './plural.ts';
import type { PlainProject, ProjectOptions } from './project-options.ts';
import { goController } from './go-texts.ts';
import { pythonController, pythonTest } from './python-texts.ts';

function plainProject({ name, kind: { group, kind, own, version } }: ProjectOptions): PlainProject {
  const apiVersion = group === '' ? version : `${group}/${version}`;
  const root = group === '' ? `/api/${version}` : `/apis/${apiVersion}`;
  return { name, kind, apiVersion, plural: pluralOf(kind), root, own };
}

/** The files of a project in Python or Go that are not those of one in TypeScript. */
export function plainFiles(options: ProjectOptions): Map<string, string> {
  const project = plainProject(options);
  const files = new Map<string, string>([
    ['package.json', manifest(options)],
    ['README.md', readme(options)],
    ['.github/workflows/ci.yml', workflow(options)],
    ['Dockerfile', options.language === 'go' ? GO_DOCKERFILE : PYTHON_DOCKERFILE],
  ]);
  if (options.language === 'go') {
    files.set('go.mod', `module ${options.name}\n\ngo 1.24\n`);
    files.set('main.go', goController(project));
    for (const [name, text] of goLibrary()) files.set(`levelhook/${name}`, text);
  } else {
    files.set('function.py', pythonController(project));
    files.set('test_function.py', pythonTest(project));
    files.set('levelhook.py', pythonLibrary());
  }
  return files;
}

const testCommand = ({ language }: ProjectOptions): string =>
  language === 'go' ? 'go vet ./... && go build -o /dev/null .' : 'python3 -m unittest';

/** For the command `levelhook`, which is a package of npm. */
function manifest(options: ProjectOptions): string {
  const { bringsNode, name, version } = options;
  return `${JSON.stringify(
    {
      name,
      version: '0.1.0',
      private: true,
      engines: { node: '>=24' },
      ...(bringsNode ? { allowScripts: { node: true } } : {}),
      scripts: { dev: 'levelhook dev', test: testCommand(options) },
      devDependencies: { levelhook: `^${version}`, ...(bringsNode ? { node: '^24.21.0' } : {}) },
    },
    null,
    2,
  )}\n`;
}

function workflow({ language, packageManager }: ProjectOptions): string {
  const isPnpm = packageManager === 'pnpm';
  const setup =
    language === 'go'
      ? `      - uses: actions/setup-go@v6\n        with: { go-version: '1.24' }\n`
      : `      - uses: actions/setup-python@v6\n        with: { python-version: '3.13' }\n`;
  return `name: ci
on: [push, pull_request]
permissions: { contents: read }
jobs:
  test:
    runs-on: ubuntu-24.04
    steps:
      - uses: actions/checkout@v7
${setup}      - run: ${isPnpm ? 'npm install --global pnpm && pnpm test' : 'npm test'}
`;
}

const PYTHON_DOCKERFILE = `FROM docker.io/library/python:3.13-slim
WORKDIR /app
COPY *.py ./
ENV HOST=0.0.0.0 PORT=8080 PYTHONUNBUFFERED=1
USER 65532:65532
EXPOSE 8080
CMD ["python3", "function.py"]
`;

const GO_DOCKERFILE = `FROM docker.io/library/golang:1.24 AS build
WORKDIR /app
COPY . .
RUN CGO_ENABLED=0 go build -o /function .

FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /function /function
ENV HOST=0.0.0.0 PORT=8080
USER 65532:65532
EXPOSE 8080
CMD ["/function"]
`;

function readme(options: ProjectOptions): string {
  const { language, name, packageManager } = options;
  const { kind, own } = options.kind;
  const run = packageManager === 'pnpm' ? 'pnpm' : 'npm run';
  const exec = packageManager === 'pnpm' ? 'pnpm exec' : 'npx';
  const [file, parts, library] =
    language === 'go'
      ? ['main.go', 'The signature, the cache and the writes', 'the folder `levelhook`']
      : ['function.py', 'The signature, the reads and the writes', '`levelhook.py`'];
  return `# ${name}

A controller for ${kind}s on [levelhook](https://github.com/levelhook/levelhook): \`${file}\`. ${parts}
are in ${library}, which is yours to change.${own ? ` The kind is defined in \`crds\`.` : ''}

\`\`\`sh
${packageManager} test
${run} dev
kubectl --kubeconfig .levelhook/control-plane/kubeconfig apply -f deploy/sample.yaml
${exec} levelhook explain ${name} default/hello
${exec} levelhook manifest URL --namespace NAMESPACE
\`\`\`

1. ${language === 'go' ? 'The program is vetted and built.' : 'The tests run the controller against objects in memory.'}
2. \`dev\` runs it on a cluster of its own, starts it again when a file changes, and prints a line for each run. The next
   two commands need another terminal.
3. The sample makes it run.
4. \`explain\` says why it ran, and what it waits for.
5. \`manifest\` asks the function that runs at URL for its description, and prints what it needs in a cluster: its
   ServiceAccount, its rights and its ReconcileFunction.

To deploy it, build the image of the Dockerfile, and install the chart \`levelhook-functions\` with
\`deploy/values.yaml\`${own ? ', after `kubectl apply -f crds`' : ''}.
`;
}
