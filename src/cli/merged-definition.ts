import { readFile } from 'node:fs/promises';
import { type Document, isMap } from 'yaml';
import { messageOf, UserError } from '../core/index.ts';
import { parseKubectlYaml } from './kubectl-yaml.ts';
import type { ConversionManifest } from './webhook-manifests.ts';

/**
 * The definition of a file with these conversions, in YAML, with the file's comments. Other objects of the file are
 * left out.
 * @throws UserError when the file cannot be read, or lacks a definition.
 */
export async function mergedDefinitions(file: string, conversions: readonly ConversionManifest[]): Promise<string[]> {
  const text = await readFile(file, 'utf8').catch((error: unknown) => {
    throw new UserError(`--crd ${file} cannot be read (${messageOf(error)}).`);
  });
  const parsed = parseKubectlYaml(text);
  const documents: Document[] = Array.isArray(parsed) ? parsed : [];
  const wrong = documents.flatMap(({ errors }) => errors)[0];
  if (wrong) throw new UserError(`--crd ${file} is not YAML (${wrong.message.split('\n', 1)[0]}).`);
  return conversions.map((conversion) => {
    const { name, ...metadata } = conversion.metadata;
    const found = documents.find(
      (each) =>
        isMap(each.contents) &&
        each.get('kind') === 'CustomResourceDefinition' &&
        each.getIn(['metadata', 'name']) === name,
    );
    if (!found) throw new UserError(`--crd ${file} has no CustomResourceDefinition ${name}.`);
    for (const [field, entries] of Object.entries(metadata)) {
      if (!found.hasIn(['metadata', field])) found.setIn(['metadata', field], found.createNode(entries));
      else for (const [key, value] of Object.entries(entries as object)) found.setIn(['metadata', field, key], value);
    }
    found.setIn(['spec', 'conversion'], found.createNode(conversion.spec.conversion));
    return found.toString().replace(/^---\n/, '');
  });
}
