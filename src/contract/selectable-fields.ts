import {
  fieldAt,
  type FieldRequirement,
  formatKind,
  groupOf,
  type GroupVersionKind,
  type KubernetesObject,
  ownValue,
  SelectorError,
} from '../core/index.ts';

/** Reads a field as the text that the apiserver compares: empty when there is none. */
type ReadField = (object: KubernetesObject) => string;
type Fields = Readonly<Record<string, ReadField>>;

/** Prints a text, a boolean or a whole number as Go does; the fields hold nothing else. */
const text = (object: unknown, path: string): string => {
  const value = fieldAt(object, path);
  return ['string', 'boolean', 'number', 'bigint'].includes(typeof value) ? String(value) : '';
};
const at =
  (path: string, unset = ''): ReadField =>
  (object) =>
    text(object, path) || unset;
/** Fields under their own paths. */
const own = (...paths: readonly string[]): Fields => Object.fromEntries(paths.map((path) => [path, at(path)]));

const REFERENCE = ['kind', 'namespace', 'name', 'uid', 'apiVersion', 'resourceVersion', 'fieldPath'] as const;

/** Kinds that name their fields, and not the namespace among them. */
const WITHOUT_NAMESPACE: readonly string[] = [
  '/Namespace',
  '/Node',
  'certificates.k8s.io/CertificateSigningRequest',
  'certificates.k8s.io/ClusterTrustBundle',
  'certificates.k8s.io/PodCertificateRequest',
  'resource.k8s.io/ResourceSlice',
];

const groupKind = (kind: GroupVersionKind): string => `${groupOf(kind)}/${kind.kind}`;

function isOfAllKinds(field: string, kind: GroupVersionKind): boolean {
  if (field === 'metadata.namespace') return !WITHOUT_NAMESPACE.includes(groupKind(kind));
  return field === 'metadata.name';
}

/**
 * Fields that the apiserver can select by, in addition to name and namespace, by kind: the names of
 * pkg/apis/*\/v1/conversion.go, with the values of pkg/registry/*\/strategy.go of Kubernetes 1.36.
 */
export const SELECTABLE: Readonly<Record<string, Fields>> = /* @__PURE__ */ selectable();

function selectable(): Readonly<Record<string, Fields>> {
  return {
    'v1/Pod': {
      ...own('spec.nodeName', 'spec.restartPolicy', 'spec.schedulerName', 'spec.serviceAccountName', 'status.phase'),
      ...own('status.podIP', 'status.nominatedNodeName'),
      'spec.hostNetwork': at('spec.hostNetwork', 'false'),
      // The old name of `spec.nodeName`, which clients still send.
      'spec.host': at('spec.nodeName'),
      // The apiserver accepts the name, but gives it no value for any pod.
      'status.podIPs': () => '',
    },
    'v1/Node': { 'spec.unschedulable': at('spec.unschedulable', 'false') },
    'v1/ReplicationController': { 'status.replicas': at('status.replicas', '0') },
    'v1/Namespace': own('status.phase'),
    'v1/Secret': own('type'),
    'v1/Service': own('spec.clusterIP', 'spec.type'),
    'v1/Event': {
      ...own(...REFERENCE.map((name) => `involvedObject.${name}`), 'reason', 'reportingComponent', 'type'),
      source: (object) => text(object, 'source.component') || text(object, 'reportingComponent'),
    },
    'events.k8s.io/v1/Event': own(
      ...REFERENCE.map((name) => `regarding.${name}`),
      'reason',
      'reportingController',
      'type',
    ),
    'batch/v1/Job': { 'status.successful': at('status.succeeded', '0') },
    'certificates.k8s.io/v1/CertificateSigningRequest': own('spec.signerName'),
    ...inVersions('certificates.k8s.io', ['v1beta1', 'v1alpha1'], {
      ClusterTrustBundle: own('spec.signerName'),
      PodCertificateRequest: own('spec.signerName', 'spec.podName', 'spec.nodeName'),
    }),
    ...inVersions('resource.k8s.io', ['v1', 'v1beta2', 'v1beta1'], {
      ResourceSlice: own('spec.nodeName', 'spec.driver'),
    }),
  };
}

function inVersions(
  group: string,
  versions: readonly string[],
  kinds: Readonly<Record<string, Fields>>,
): Readonly<Record<string, Fields>> {
  const all = versions.flatMap((version) =>
    Object.entries(kinds).map(([kind, fields]) => [`${group}/${version}/${kind}`, fields] as const),
  );
  return Object.fromEntries(all);
}

/**
 * @param custom the fields of a custom resource that its definition names.
 * @throws SelectorError with the apiserver's message for a field that cannot select this kind
 */
export function checkFields(
  kind: GroupVersionKind,
  fields: readonly FieldRequirement[],
  custom: readonly string[] = [],
): void {
  const builtIn = ownValue(SELECTABLE, formatKind(kind));
  for (const { field } of fields) {
    if (isOfAllKinds(field, kind) || custom.includes(field)) continue;
    if (builtIn && ownValue(builtIn, field)) continue;
    throw new SelectorError(builtIn || custom.length > 0 ? unsupported(kind, field) : unknown(field));
  }
}

/**
 * Whether only the definition of a custom resource can say if these fields are selectable. The gateway reads
 * definitions, so the cache API answers such a list.
 */
export function needDefinition(kind: GroupVersionKind, fields: readonly FieldRequirement[]): boolean {
  // Kubernetes' own groups without a dot, and the core group, have no definitions.
  if (!groupOf(kind).includes('.')) return false;
  const builtIn = ownValue(SELECTABLE, formatKind(kind)) ?? {};
  return fields.some(({ field }) => !isOfAllKinds(field, kind) && !ownValue(builtIn, field));
}

function unsupported(kind: GroupVersionKind, field: string): string {
  switch (groupKind(kind)) {
    case 'batch/Job':
      return `field label ${JSON.stringify(field)} not supported for Job`;
    case 'resource.k8s.io/ResourceSlice':
      return `field label not supported for ${kind.apiVersion}, Kind=${kind.kind}: ${field}`;
    default:
      return `field label not supported: ${field}`;
  }
}

const unknown = (field: string): string =>
  `"${field}" is not a known field selector: only "metadata.name", "metadata.namespace"`;

/** The value that a field selector compares. `checkFields` must allow the field. */
export function selectableValue(object: KubernetesObject, field: string): string {
  const read = ownValue(ownValue(SELECTABLE, formatKind(object)) ?? {}, field);
  return read ? read(object) : text(object, field);
}
