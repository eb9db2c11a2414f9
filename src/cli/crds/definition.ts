import { stringify } from 'yaml';
import { UserError } from '../../core/index.ts';
import type { KindVersion } from './kinds.ts';

/** The first line of generated files. Files without it are never overwritten. */
export const CRDS_HEADER = '# Made by `levelhook crds`: do not edit.';

/** A file with the CustomResourceDefinition of a kind. */
export interface DefinitionFile {
  /** `sites.example.com.yaml` */
  readonly name: string;
  readonly text: string;
}

/**
 * One definition for each kind, with all of its versions.
 * @throws UserError when versions contradict each other.
 */
export function definitionFiles(versions: readonly KindVersion[]): DefinitionFile[] {
  const kinds = Map.groupBy(versions, ({ group, plural }) => `${plural}.${group}`);
  return [...kinds].map(([name, own]) => ({
    name: `${name}.yaml`,
    text: `${CRDS_HEADER}\n${stringify(definitionOf(name, own), { aliasDuplicateObjects: false, lineWidth: 0 })}`,
  }));
}

function definitionOf(name: string, versions: readonly KindVersion[]): object {
  const [first] = versions;
  if (!first) throw new TypeError('a kind without a version');
  const { group, kind, namespaced, plural } = first;
  for (const each of versions) {
    if (each.kind !== kind || each.namespaced !== namespaced) {
      throw new UserError(`${each.source}: it is another kind or scope of ${name} than ${first.source}.`);
    }
    const twice = versions.find((other) => other !== each && other.version === each.version);
    if (twice) throw new UserError(`${each.source}: ${twice.source} is the version ${each.version} of ${name}, too.`);
  }
  const stored = versions.filter(({ storage }) => storage ?? versions.length === 1);
  if (stored.length !== 1) {
    throw new UserError(
      `${first.source}: ${stored.length} of the ${versions.length} versions of ${name} have "@storage true", and one must.`,
    );
  }
  const shortNames = [...new Set(versions.flatMap((each) => each.shortNames))];
  const categories = [...new Set(versions.flatMap((each) => each.categories))];
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name },
    spec: {
      group,
      scope: namespaced ? 'Namespaced' : 'Cluster',
      names: {
        kind,
        plural,
        singular: kind.toLowerCase(),
        listKind: `${kind}List`,
        ...(shortNames.length > 0 ? { shortNames } : {}),
        ...(categories.length > 0 ? { categories } : {}),
      },
      versions: versions.map((each) => versionOf(each, stored.includes(each))),
    },
  };
}

function versionOf(each: KindVersion, storage: boolean): object {
  const { deprecated, hasStatus, printColumns, scale, schema, served, version } = each;
  const subresources = {
    ...(hasStatus ? { status: {} } : {}),
    ...(scale
      ? {
          scale: {
            specReplicasPath: scale.replicas,
            statusReplicasPath: scale.status,
            ...(scale.selector === undefined ? {} : { labelSelectorPath: scale.selector }),
          },
        }
      : {}),
  };
  // As the apiserver shows a kind without columns of its own.
  const age = { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' };
  return {
    name: version,
    served,
    storage,
    ...(deprecated === undefined ? {} : { deprecated: true, deprecationWarning: deprecated }),
    ...(Object.keys(subresources).length > 0 ? { subresources } : {}),
    ...(printColumns.length > 0 ? { additionalPrinterColumns: [...printColumns, age] } : {}),
    schema: { openAPIV3Schema: schema },
  };
}
