import {
  asLabelSelector,
  fieldAt,
  formatLabelSelector,
  type KubernetesObject,
  type LabelRequirement,
  requirementsOf,
} from '../../../../core/index.ts';
import { type Column, column, conditionIs, listAt, numberAt, textAt } from './columns.ts';
import { ageOf } from './human-duration.ts';
import { podSummary } from './pod-status.ts';

export const nameColumn = column('Name', ({ metadata }) => metadata.name, { format: 'name' });
export const ageColumn = column('Age', ({ metadata }, now) => ageOf(metadata.creationTimestamp, now));

const integer = (name: string, path: string): Column =>
  column(name, (object) => numberAt(object, path), { type: 'integer' });
const wide = (name: string, cell: Column['cell']): Column => column(name, cell, { wide: true });
const joined = (object: unknown, path: string, field: string): string =>
  listAt(object, path)
    .map((each) => String(each[field]))
    .join(',');

const template: readonly Column[] = [
  wide('Containers', (object) => joined(object, 'spec.template.spec.containers', 'name')),
  wide('Images', (object) => joined(object, 'spec.template.spec.containers', 'image')),
];

/**
 * The columns of common kinds, as the apiserver has them (kubernetes, pkg/printers/internalversion/printers.go). A kind
 * that is not here is shown by name and age, a custom one by the columns of its definition.
 */
export const BUILT_IN_COLUMNS: Readonly<Record<string, readonly Column[]>> = {
  'v1/Pod': [
    nameColumn,
    column('Ready', (pod, now) => podSummary(pod, now).ready),
    column('Status', (pod, now) => podSummary(pod, now).status),
    column('Restarts', (pod, now) => podSummary(pod, now).restarts),
    ageColumn,
    wide('IP', (pod) => textAt(listAt(pod, 'status.podIPs')[0], 'ip', '<none>')),
    wide('Node', (pod) => textAt(pod, 'spec.nodeName', '<none>')),
    wide('Nominated Node', (pod) => textAt(pod, 'status.nominatedNodeName', '<none>')),
    wide('Readiness Gates', (pod) => readinessGates(pod)),
  ],
  'apps/v1/Deployment': [
    nameColumn,
    column('Ready', (object) => `${numberAt(object, 'status.readyReplicas')}/${numberAt(object, 'spec.replicas')}`),
    column('Up-to-date', (object) => numberAt(object, 'status.updatedReplicas')),
    column('Available', (object) => numberAt(object, 'status.availableReplicas')),
    ageColumn,
    ...template,
    wide('Selector', (object) => selectorOf(object) ?? '<invalid>'),
  ],
  'apps/v1/ReplicaSet': [
    nameColumn,
    integer('Desired', 'spec.replicas'),
    integer('Current', 'status.replicas'),
    integer('Ready', 'status.readyReplicas'),
    ageColumn,
    ...template,
    // As `FormatLabelSelector`, which Deployments do not use.
    wide('Selector', (object) => (selectorOf(object) ?? '<error>') || '<none>'),
  ],
  'v1/ConfigMap': [
    nameColumn,
    column('Data', (object) => countOf(fieldAt(object, 'data')) + countOf(fieldAt(object, 'binaryData'))),
    ageColumn,
  ],
  'v1/Secret': [
    nameColumn,
    column('Type', (object) => textAt(object, 'type')),
    column('Data', (object) => countOf(fieldAt(object, 'data'))),
    ageColumn,
  ],
  'v1/Namespace': [nameColumn, column('Status', (object) => textAt(object, 'status.phase')), ageColumn],
  'v1/Service': [
    nameColumn,
    column('Type', (object) => textAt(object, 'spec.type')),
    column('Cluster-IP', (object) => firstOf(fieldAt(object, 'spec.clusterIPs'))),
    column('External-IP', externalIp),
    column('Port(s)', (object) => portsOf(object)),
    ageColumn,
    wide('Selector', (object) => labelsOf(fieldAt(object, 'spec.selector'))),
  ],
  'v1/Node': [
    nameColumn,
    column('Status', nodeStatus),
    column('Roles', nodeRoles),
    ageColumn,
    column('Version', (object) => textAt(object, 'status.nodeInfo.kubeletVersion')),
    wide('Internal-IP', (object) => address(object, 'InternalIP')),
    wide('External-IP', (object) => address(object, 'ExternalIP')),
    wide('OS-Image', (object) => textAt(object, 'status.nodeInfo.osImage', '<unknown>')),
    wide('Kernel-Version', kernelOf),
    wide('Container-Runtime', (object) => textAt(object, 'status.nodeInfo.containerRuntimeVersion', '<unknown>')),
  ],
};

function countOf(value: unknown): number {
  return typeof value === 'object' && value !== null ? Object.keys(value).length : 0;
}

function firstOf(value: unknown): string {
  return Array.isArray(value) && typeof value[0] === 'string' ? value[0] : '<none>';
}

function labelsOf(value: unknown): string {
  const labels = Object.entries((value ?? {}) as Record<string, string>).map(([key, each]) => `${key}=${each}`);
  return labels.length === 0 ? '<none>' : labels.toSorted().join(',');
}

/** As `Selector.String` of apimachinery. Undefined for an invalid selector. */
function selectorOf(object: unknown): string | undefined {
  const selector = asLabelSelector(fieldAt(object, 'spec.selector') ?? {});
  if (!selector) return undefined;
  const { matchLabels = {}, matchExpressions = [] } = selector;
  try {
    const labels = requirementsOf({ matchLabels }).map((each) => ({
      key: each.key,
      text: formatLabelSelector([each]),
    }));
    const expressions = requirementsOf({ matchExpressions }).map((each) => ({ key: each.key, text: textOf(each) }));
    const parts = [...labels, ...expressions].toSorted((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0));
    return parts.map(({ text }) => text).join(',');
  } catch {
    return undefined;
  }
}

/** An expression keeps its operator: `tier in (web)`, where a label of the selector is `tier=web`. */
function textOf(requirement: LabelRequirement): string {
  const { key, operator, values } = requirement;
  if (operator !== 'In' && operator !== 'NotIn') return formatLabelSelector([requirement]);
  return `${key} ${operator === 'In' ? 'in' : 'notin'} (${values.toSorted().join(',')})`;
}

function readinessGates(pod: KubernetesObject): string {
  const gates = listAt(pod, 'spec.readinessGates');
  if (gates.length === 0) return '<none>';
  const passed = gates.filter((gate) => conditionIs(pod, String(gate['conditionType'])) === 'True');
  return `${passed.length}/${gates.length}`;
}

function portsOf(service: unknown): string {
  const texts = listAt(service, 'spec.ports').map((port) => {
    const nodePort = numberAt(port, 'nodePort');
    return `${numberAt(port, 'port')}${nodePort > 0 ? `:${nodePort}` : ''}/${textAt(port, 'protocol')}`;
  });
  return texts.join(',') || '<none>';
}

function externalIp(service: KubernetesObject): string {
  const fixed = fieldAt(service, 'spec.externalIPs');
  const given = Array.isArray(fixed) ? (fixed as string[]) : [];
  switch (textAt(service, 'spec.type')) {
    case 'ExternalName':
      return textAt(service, 'spec.externalName');
    case 'LoadBalancer': {
      const balanced = listAt(service, 'status.loadBalancer.ingress')
        .map((each) => textAt(each, 'ip') || textAt(each, 'hostname'))
        .filter((each) => each !== '');
      return [...[...new Set(balanced)].toSorted(), ...given].join(',') || '<pending>';
    }
    default:
      return given.join(',') || '<none>';
  }
}

function nodeStatus(node: KubernetesObject): string {
  const ready = conditionIs(node, 'Ready');
  const status = ready === undefined ? 'Unknown' : ready === 'True' ? 'Ready' : 'NotReady';
  return fieldAt(node, 'spec.unschedulable') === true ? `${status},SchedulingDisabled` : status;
}

function nodeRoles({ metadata }: KubernetesObject): string {
  const prefix = 'node-role.kubernetes.io/';
  const roles = Object.entries(metadata.labels ?? {}).flatMap(([key, value]) => {
    if (key.startsWith(prefix)) return key.length > prefix.length ? [key.slice(prefix.length)] : [];
    return key === 'kubernetes.io/role' && value !== '' ? [value] : [];
  });
  return [...new Set(roles)].toSorted().join(',') || '<none>';
}

function address(node: KubernetesObject, type: string): string {
  return textAt(
    listAt(node, 'status.addresses').find((each) => each['type'] === type),
    'address',
    '<none>',
  );
}

function kernelOf(node: KubernetesObject): string {
  const kernel = textAt(node, 'status.nodeInfo.kernelVersion', '<unknown>');
  const architecture = textAt(node, 'status.nodeInfo.architecture');
  return architecture ? `${kernel} (${architecture})` : kernel;
}
