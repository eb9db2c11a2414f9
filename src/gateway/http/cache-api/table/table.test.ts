import { describe, expect, it } from 'vitest';
import type { KubernetesObject } from '../../../../core/index.ts';
import { BUILT_IN_COLUMNS } from './built-in-columns.ts';
import { customColumn, customColumns } from './custom-columns.ts';
import { ageOf, humanDuration } from './human-duration.ts';
import { podSummary } from './pod-status.ts';

const NOW = Date.parse('2026-01-02T00:00:00Z');

function pod(spec: object, status: object, metadata: object = {}): KubernetesObject {
  const named = { name: 'p', namespace: 'a', uid: 'u', resourceVersion: '1', ...metadata };
  return { apiVersion: 'v1', kind: 'Pod', metadata: named, spec, status } as KubernetesObject;
}
const container = (state: object, more: object = {}) => ({ name: 'c', restartCount: 0, ready: false, state, ...more });
const running = container({ running: {} }, { ready: true });
const ended = (exitCode: number, more: object = {}) => container({ terminated: { exitCode, ...more } });

describe('how kubectl shows a duration (apimachinery, util/duration)', () => {
  it.each([
    [-5, '<invalid>'],
    [-1, '0s'],
    [0, '0s'],
    [119, '119s'],
    [120, '2m'],
    [125, '2m5s'],
    [600, '10m'],
    [10_799, '179m'],
    [10_800, '3h'],
    [10_860, '3h1m'],
    [8 * 3600, '8h'],
    [47 * 3600, '47h'],
    [48 * 3600, '2d'],
    [49 * 3600, '2d1h'],
    [8 * 86_400, '8d'],
    [729 * 86_400, '729d'],
    [730 * 86_400, '2y'],
    [731 * 86_400, '2y1d'],
    [2920 * 86_400, '8y'],
  ])('%d s: %s', (seconds, text) => {
    expect(humanDuration(seconds)).toBe(text);
  });

  it('is unknown without a timestamp', () => {
    expect(ageOf(undefined, NOW)).toBe('<unknown>');
    expect(ageOf('2026-01-01T23:59:00Z', NOW)).toBe('60s');
  });
});

describe('what kubectl shows of a pod (printPod)', () => {
  const two = { containers: [{ name: 'c' }, { name: 'd' }] };
  const conditions = [{ type: 'Ready', status: 'True' }];
  it.each<[string, object, object, object, string]>([
    ['pending', two, { phase: 'Pending' }, {}, '0/2 Pending 0'],
    ['running', two, { phase: 'Running', containerStatuses: [running, running] }, {}, '2/2 Running 0'],
    ['evicted', two, { phase: 'Failed', reason: 'Evicted' }, {}, '0/2 Evicted 0'],
    [
      'gated',
      two,
      { phase: 'Pending', conditions: [{ type: 'PodScheduled', reason: 'SchedulingGated' }] },
      {},
      '0/2 SchedulingGated 0',
    ],
    [
      'crashing',
      two,
      {
        phase: 'Running',
        containerStatuses: [
          container(
            { waiting: { reason: 'CrashLoopBackOff' } },
            { restartCount: 3, lastState: { terminated: { finishedAt: '2026-01-01T23:55:00Z' } } },
          ),
          running,
        ],
      },
      {},
      '1/2 CrashLoopBackOff 3 (5m ago)',
    ],
    [
      'completed',
      two,
      { phase: 'Succeeded', containerStatuses: [ended(0, { reason: 'Completed' }), ended(0, { reason: 'Completed' })] },
      {},
      '0/2 Completed 0',
    ],
    [
      'one of two completed',
      two,
      { phase: 'Running', conditions, containerStatuses: [ended(0, { reason: 'Completed' }), running] },
      {},
      '1/2 Running 0',
    ],
    [
      'one of two completed, not ready',
      two,
      { phase: 'Running', containerStatuses: [ended(0, { reason: 'Completed' }), running] },
      {},
      '1/2 NotReady 0',
    ],
    [
      'one of two failed',
      two,
      { phase: 'Running', containerStatuses: [ended(0, { reason: 'Completed' }), ended(1, { reason: 'Error' })] },
      {},
      '0/2 Error 0',
    ],
    [
      'ended by a signal',
      two,
      { phase: 'Failed', containerStatuses: [ended(137, { signal: 9 })] },
      {},
      '0/2 Signal:9 0',
    ],
    ['ended with a code', two, { phase: 'Failed', containerStatuses: [ended(3)] }, {}, '0/2 ExitCode:3 0'],
    [
      'initializing',
      { ...two, initContainers: [{ name: 'i' }, { name: 'j' }] },
      { phase: 'Pending', initContainerStatuses: [ended(0), container({ waiting: { reason: 'PodInitializing' } })] },
      {},
      '0/2 Init:1/2 0',
    ],
    [
      'failing to initialize',
      { ...two, initContainers: [{ name: 'i' }] },
      { phase: 'Pending', initContainerStatuses: [{ ...ended(2), restartCount: 4 }] },
      {},
      '0/2 Init:ExitCode:2 4',
    ],
    [
      'waiting to initialize',
      { ...two, initContainers: [{ name: 'i' }] },
      { phase: 'Pending', initContainerStatuses: [container({ waiting: { reason: 'ImagePullBackOff' } })] },
      {},
      '0/2 Init:ImagePullBackOff 0',
    ],
    [
      'with a sidecar',
      { ...two, initContainers: [{ name: 's', restartPolicy: 'Always' }] },
      {
        phase: 'Running',
        initContainerStatuses: [{ ...running, name: 's', started: true, restartCount: 2 }],
        containerStatuses: [running, running],
      },
      {},
      '3/3 Running 2',
    ],
    [
      'terminating',
      two,
      { phase: 'Running', containerStatuses: [running, running] },
      { deletionTimestamp: 'x' },
      '2/2 Terminating 0',
    ],
    ['lost with its node', two, { phase: 'Running', reason: 'NodeLost' }, { deletionTimestamp: 'x' }, '0/2 Unknown 0'],
    ['deleted when it had ended', two, { phase: 'Succeeded' }, { deletionTimestamp: 'x' }, '0/2 Succeeded 0'],
  ])('%s', (_, spec, status, metadata, expected) => {
    const { ready, status: shown, restarts } = podSummary(pod(spec, status, metadata), NOW);
    expect(`${ready} ${shown} ${restarts}`).toBe(expected);
  });
});

describe('other kinds', () => {
  const cells = (kind: string, rest: object, metadata: object = {}): unknown[] => {
    const [apiVersion, name] = [kind.slice(0, kind.lastIndexOf('/')), kind.slice(kind.lastIndexOf('/') + 1)];
    const object = {
      apiVersion,
      kind: name,
      metadata: { name: 'x', uid: 'u', resourceVersion: '1', creationTimestamp: '2026-01-01T23:59:00Z', ...metadata },
      ...rest,
    };
    return (BUILT_IN_COLUMNS[kind] ?? []).map(({ cell }) => cell(object, NOW));
  };

  it('nodes, by condition, role and address', () => {
    const status = {
      conditions: [{ type: 'Ready', status: 'Unknown' }],
      addresses: [{ type: 'InternalIP', address: '10.0.0.1' }],
      nodeInfo: { kubeletVersion: 'v1', kernelVersion: '6', architecture: 'arm64' },
    };
    const labels = { 'node-role.kubernetes.io/worker': '', 'node-role.kubernetes.io/edge': '' };
    expect(cells('v1/Node', { spec: { unschedulable: true }, status }, { labels })).toEqual([
      'x',
      'NotReady,SchedulingDisabled',
      'edge,worker',
      '60s',
      'v1',
      '10.0.0.1',
      '<none>',
      '<unknown>',
      '6 (arm64)',
      '<unknown>',
    ]);
    expect(cells('v1/Node', {}).slice(1, 3)).toEqual(['Unknown', '<none>']);
  });

  it('services, by type', () => {
    const ports = [
      { port: 80, nodePort: 30_080, protocol: 'TCP' },
      { port: 53, protocol: 'UDP' },
    ];
    const shown = (spec: object, status: object = {}) =>
      cells('v1/Service', { spec: { ports, ...spec }, status }).slice(1, 5);
    expect(shown({ type: 'ClusterIP', clusterIPs: ['10.0.0.1'] })).toEqual([
      'ClusterIP',
      '10.0.0.1',
      '<none>',
      '80:30080/TCP,53/UDP',
    ]);
    expect(shown({ type: 'ExternalName', externalName: 'a.b' })).toEqual([
      'ExternalName',
      '<none>',
      'a.b',
      '80:30080/TCP,53/UDP',
    ]);
    expect(shown({ type: 'LoadBalancer' })[2]).toBe('<pending>');
    const balanced = (spec: object, ...ingress: object[]) =>
      shown({ type: 'LoadBalancer', ...spec }, { loadBalancer: { ingress } })[2];
    expect(balanced({}, { ip: '1.2.3.4' })).toBe('1.2.3.4');
    // A sorted set without empty texts, and after it the fixed addresses as they are.
    const external = { externalIPs: ['1.1.1.2', '1.1.1.1'] };
    const ingress = [{ hostname: 'b.example' }, { ip: '9.9.9.9' }, {}, { ip: '1.2.3.4' }, { ip: '9.9.9.9' }];
    expect(balanced(external, ...ingress)).toBe('1.2.3.4,9.9.9.9,b.example,1.1.1.2,1.1.1.1');
    expect(balanced({}, {}, {})).toBe('<pending>');
  });

  it.each<[string, object | undefined, string, string]>([
    ['labels', { matchLabels: { tier: 'web', app: 'x' } }, 'app=x,tier=web', 'app=x,tier=web'],
    [
      'expressions, sorted by their keys',
      {
        matchLabels: { b: '1' },
        matchExpressions: [
          { key: 'd', operator: 'NotIn', values: ['x'] },
          { key: 'c', operator: 'In', values: ['z', 'y'] },
          { key: 'a', operator: 'In', values: ['web'] },
          { key: 'f', operator: 'DoesNotExist' },
          { key: 'e', operator: 'Exists' },
        ],
      },
      'a in (web),b=1,c in (y,z),d notin (x),e,!f',
      'a in (web),b=1,c in (y,z),d notin (x),e,!f',
    ],
    ['no selector', undefined, '', '<none>'],
    ['an empty selector', {}, '', '<none>'],
    ['an invalid value', { matchLabels: { a: '-' } }, '<invalid>', '<error>'],
    ['no values', { matchExpressions: [{ key: 'a', operator: 'In' }] }, '<invalid>', '<error>'],
    [
      'an unknown operator',
      { matchExpressions: [{ key: 'a', operator: 'Gt', values: ['1'] }] },
      '<invalid>',
      '<error>',
    ],
  ])('selectors of %s', (_, selector, ofDeployment, ofReplicaSet) => {
    const spec = selector ? { selector } : {};
    expect(cells('apps/v1/Deployment', { spec }).at(-1)).toBe(ofDeployment);
    expect(cells('apps/v1/ReplicaSet', { spec }).at(-1)).toBe(ofReplicaSet);
  });

  it('custom ones, by the part of JSONPath that columns use', () => {
    const object = {
      metadata: { name: 'x', creationTimestamp: '2026-01-01T23:59:00Z', annotations: { 'a.b/c': 'dotted' } },
      spec: {
        list: [
          { type: 'A', v: 1 },
          { type: 'B', v: 2 },
        ],
        big: { a: 1 },
        n: 1.9,
        odd: 9007199254740993n,
        yes: true,
        huge: 1e21,
      },
    };
    const cell = (type: string, jsonPath: string): unknown =>
      customColumn({ name: 'c', type, jsonPath })?.cell(object as never, NOW);
    expect(cell('string', '.spec.list[?(@.type=="B")].v')).toBe('2');
    expect(cell('integer', ".spec.list[?(@.type=='A')].v")).toBe(1);
    expect(cell('integer', '.spec.list[-1].v')).toBe(2);
    expect(cell('integer', '.spec.list[*].v')).toBe(1);
    expect(cell('string', '.metadata.annotations.a\\.b/c')).toBe('dotted');
    expect(cell('string', ".metadata.annotations['a\\.b/c']")).toBe('dotted');
    expect(cell('string', ".metadata.annotations['a.b/c']")).toBeNull();
    expect(cell('string', '.spec.list[-1:].type')).toBe('B');
    expect(cell('string', '.spec.list[?(@.v>1)].type')).toBe('B');
    expect(cell('string', '..yes')).toBe('true');
    expect(cell('string', '.spec.huge')).toBe('1e+21');
    expect(cell('string', '.spec.big')).toBe('{"a":1}');
    expect(cell('integer', '.spec.n')).toBe(1);
    expect(cell('number', '.spec.n')).toBe(1.9);
    expect(cell('integer', '.spec.odd')).toBe(9007199254740993n);
    expect(cell('number', '.spec.odd')).toBe(9007199254740992);
    expect(cell('string', '.spec.odd')).toBe('9007199254740993');
    expect(cell('boolean', '.spec.yes')).toBe(true);
    expect(cell('date', '.metadata.creationTimestamp')).toBe('60s');
    for (const path of [
      '.nope.no',
      '.spec.list[9].v',
      '.constructor',
      '.spec.list[?(@.v>"1")].v',
      '.spec.n[0]',
      'a b',
    ]) {
      expect(cell('string', path), path).toBeNull();
    }
  });

  const shown = (spec: object, jsonPath: string): unknown =>
    customColumn({ name: 'c', type: 'string', jsonPath })?.cell({ metadata: {}, spec } as never, NOW);

  it.each<[string, unknown, unknown]>([
    // strconv.Atoi reads a literal of 64 bits.
    ['@.v==9007199254740993', 9007199254740993n, 'a'],
    ['@.v==9007199254740992', 9007199254740993n, null],
    ['@.v!=9007199254740992', 9007199254740993n, 'a'],
    ['@.v<9223372036854775807', 9223372036854775806n, 'a'],
    ['@.v==0000000000000000000000005', 5, 'a'],
    ['@.v==+5', 5, 'a'],
    ['@.v==-9223372036854775808', -9223372036854775808n, 'a'],
    // A literal or a value beyond 64 bits is a float, which no int can be compared with.
    ['@.v>5', 10_000_000_000_000_000_000n, null],
    ['@.v>5.0', 10_000_000_000_000_000_000n, 'a'],
    ['@.v<9223372036854775808', 5, null],
    ['@.v==10000000000000000000', 10_000_000_000_000_000_000n, 'a'],
    ['@.v==5.0', 5, null],
    ['@.v==5', { number: 5, isWhole: true }, null],
  ])('compare numbers as Go does: %s of %o', (filter, v, expected) => {
    expect(shown({ list: [{ name: 'a', v }] }, `.spec.list[?(${filter})].name`)).toBe(expected);
  });

  // What tableconvertor of apiextensions-apiserver 0.36.3 says; `undefined` for its "unrecognized column definition".
  it.each<[string, unknown]>([
    ['[?(@.v=="with )")].name', 'n'],
    ['[?("a">"with )")]', undefined],
    ['[?(@.v)', undefined],
    ['[?(word)].name', 'n'],
    ['[?(end)].name', null],
    ['.a b', null],
    ['.a&b', null],
    ['..*', undefined],
    ['[-]', undefined],
    ['[0,', undefined],
    ['[99999999999999999999]', undefined],
    [".a'b'", null],
    [" 'x'", 'x'],
    [" 'it\\\"s'", undefined],
    [" '\\x41\\101\\u00e9\\U0001F600\\''", "AAé😀'"],
    [" '\\ud800'", undefined],
    [" '\\400'", undefined],
    [' 5', '5'],
    [' 1.5', '1.5'],
    [' 1.2.3', undefined],
    [' +', undefined],
    ['\ttab', undefined],
    [' true', 'true'],
    [' "a"b', null],
    ['}x', '[{"name":"n","v":"with )"}]'],
    ['}{end', null],
    ['}{.a[', undefined],
    ["['a{b']", undefined],
    ['\\', undefined],
  ])('read paths as client-go does: .spec%s', (end, expected) => {
    expect(shown([{ name: 'n', v: 'with )' }], `.spec${end}`)).toBe(expected);
  });

  it('end before the first whose path client-go cannot parse', async () => {
    const named = (name: string, jsonPath: string) => ({ name, type: 'string', jsonPath });
    const all = [named('a', '.a'), named('none', '.a['), named('b', '.b')];
    const columns = await customColumns(all, (work) => work());
    expect(columns.map(({ definition }) => definition.name)).toEqual(['Name', 'a']);
  });

  it('print an integer beyond 64 bits as the float that it is for Go', () => {
    expect(shown({ v: 10_000_000_000_000_000_000n }, '.spec.v')).toBe('1e+19');
    expect(shown({ v: 9223372036854775807n }, '.spec.v')).toBe('9223372036854775807');
    expect(shown({ v: [12_345_678_901_234_567_890n, 2n ** 80n] }, '.spec.v')).toBe(
      '[12345678901234567000,1.2089258196146292e+24]',
    );
    expect(shown({ v: 1 }, '.spec.v 5')).toBe('5');
  });

  it.each<[string, object, string, unknown]>([
    ['passes the item whose path ends in an error', { tags: [] }, '@.tags[0]', 'a'],
    ['passes the item whose field is no list', { tags: 'x' }, '@.tags[0]', 'a'],
    ['passes the item whose union has an error', { tags: [1] }, '@.tags[0,3]', 'a'],
    ['refuses an item without the field', {}, '@.tags[0]', null],
  ])('filter by existence as Go does, which %s', (_, item, filter, expected) => {
    expect(shown({ list: [{ name: 'a', ...item }] }, `.spec.list[?(${filter})].name`)).toBe(expected);
  });

  it('filter by a comparison without the right side where the left one is missing', () => {
    expect(shown({ list: [{ b: [] }, { name: 'a', v: 1, b: [1] }] }, '.spec.list[?(@.v==@.b[0])].name')).toBe('a');
    expect(
      shown(
        {
          list: [
            { v: 1, b: [] },
            { name: 'a', v: 1, b: [1] },
          ],
        },
        '.spec.list[?(@.v==@.b[0])].name',
      ),
    ).toBeNull();
  });

  it('end at the first empty slice', () => {
    expect(shown({ list: [{ tags: ['x'] }, { tags: [] }, { tags: ['y'] }] }, '.spec.list[*].tags[*]')).toBe('x');
    expect(shown({ list: [{ tags: [] }, { tags: ['y'] }] }, '.spec.list[*].tags[*]')).toBeNull();
  });
});
