import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ApiError, messageOf, resourcePath, UserError } from '../core/index.ts';
import { ApiClient } from '../ground/apiserver/api-client.ts';
import { loadCredentials } from '../ground/apiserver/credentials.ts';
import { DEFINITION } from './definitions.ts';
import { parseKubectlYaml, valueOf } from './kubectl-yaml.ts';
import { parseDefinition, TYPES_HEADER, typesOf } from './crd-types.ts';
import { patiently } from './progress.ts';

export interface TypesOptions {
  readonly kubeconfig?: string;
  /** Names of definitions, `widgets.example.com`. Empty for all. */
  readonly only: readonly string[];
  readonly out: string;
  /** The package that the modules import. */
  readonly from: string;
}

/** A CustomResourceDefinition before validation. */
interface FoundDefinition {
  readonly value: unknown;
  /** Its place, for messages. */
  readonly source: string;
}

/** Writes a TypeScript module for each served version of the custom resources in files, or else in the cluster. */
export async function typesCommand(files: readonly string[], options: TypesOptions): Promise<void> {
  const found =
    files.length > 0 ? await fromFiles(files) : await patiently(fromCluster(options.kubeconfig), 'the apiserver');
  const missing = options.only.find((name) => !found.some((each) => nameOf(each) === name));
  if (missing !== undefined) throw new UserError(`There is no custom resource definition "${missing}".`);
  // Only the wanted definitions have to be valid.
  const wanted = found
    .filter((each) => options.only.length === 0 || options.only.includes(nameOf(each) ?? ''))
    .map(({ value, source }) => parseDefinition(value, source));
  if (wanted.length === 0) throw new UserError('There are no custom resource definitions to make types of.');
  // All modules are made before the first is written, so that an error leaves no half of them.
  const made = Promise.all(wanted.map((each) => typesOf(each, options.from)));
  const modules = new Map((await patiently(made, 'the types')).flatMap((each) => [...each]));
  await mkdir(options.out, { recursive: true }).catch((error: unknown) => {
    throw new UserError(`The folder ${options.out} cannot be made (${messageOf(error)}).`);
  });
  const paths = [...modules].map(([name, text]) => [join(options.out, name), text] as const);
  for (const [path] of paths) await refuseForeign(path);
  for (const [path, text] of paths) {
    await writeFile(path, text);
    process.stdout.write(`${path}\n`);
  }
}

/** `PLURAL.GROUP`; undefined when one of them is missing. */
function nameOf({ value }: FoundDefinition): string | undefined {
  const { spec } = (value ?? {}) as { spec?: { group?: unknown; names?: { plural?: unknown } } };
  return spec?.names ? `${String(spec.names.plural)}.${String(spec.group)}` : undefined;
}

async function fromFiles(files: readonly string[]): Promise<FoundDefinition[]> {
  const definitions: FoundDefinition[] = [];
  for (const file of files) {
    const text = await readFile(file, 'utf8').catch((error: unknown) => {
      throw new UserError(`${file} cannot be read (${messageOf(error)}).`);
    });
    const documents = parseKubectlYaml(text);
    for (const document of Array.isArray(documents) ? documents : []) {
      const [error] = document.errors;
      if (error) throw new UserError(`${file} is not YAML (${error.message.split('\n', 1)[0]}).`);
      // A file may contain other objects, too.
      for (const each of objectsOf(toPlain(document, file))) {
        if ((each as { kind?: unknown } | null)?.kind === 'CustomResourceDefinition')
          definitions.push({ value: each, source: file });
      }
    }
  }
  if (definitions.length === 0) throw new UserError(`There is no CustomResourceDefinition in ${files.join(', ')}.`);
  return definitions;
}

function toPlain(document: Parameters<typeof valueOf>[0], file: string): unknown {
  try {
    return valueOf(document);
  } catch (error) {
    throw new UserError(`${file} cannot be used (${messageOf(error)}).`);
  }
}

/** The items of a `List`. */
function objectsOf(value: unknown): unknown[] {
  const { kind, items } = (value ?? {}) as { kind?: unknown; items?: unknown };
  return kind === 'List' && Array.isArray(items) ? items : [value];
}

async function fromCluster(kubeconfig: string | undefined): Promise<FoundDefinition[]> {
  const credentials = await loadCredentials(kubeconfig);
  const client = new ApiClient(credentials);
  try {
    const { items } = await client.json<{ items: { metadata: { name: string } }[] }>({
      path: resourcePath(DEFINITION),
    });
    // Items of a list lack their kind.
    const type = { apiVersion: DEFINITION.apiVersion, kind: DEFINITION.kind };
    return items.map((item) => ({
      value: { ...type, ...item },
      source: `${client.server}, ${item.metadata.name},`,
    }));
  } catch (error) {
    if (error instanceof UserError) throw error;
    const what = error instanceof ApiError ? 'does not give its definitions' : 'does not answer';
    throw new UserError(`The apiserver at ${client.server} ${what} (${messageOf(error)}).`);
  } finally {
    await credentials.close();
  }
}

async function refuseForeign(path: string): Promise<void> {
  const old = await readFile(path, 'utf8').catch(() => TYPES_HEADER);
  if (!old.startsWith(TYPES_HEADER)) {
    throw new UserError(`${path} was not made by this command: move it away, or choose another folder with --out.`);
  }
}
