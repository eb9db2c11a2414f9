import { expect, it } from 'vitest';
import { whatNext } from './what-next.ts';

const SCALE = 'kubectl -n default scale replicaset hello --replicas=10';
const EXPLAIN = 'levelhook explain replicaset default/hello';
const LIST = 'levelhook get controllers';

it.each<[string, boolean, readonly string[], readonly string[]]>([
  ['replaces the controller of ReplicaSets', true, ['replicaset-controller'], [SCALE, EXPLAIN]],
  ['replaces this controller among others', true, ['deployment-controller', 'replicaset-controller'], [SCALE, EXPLAIN]],
  ['replaces another controller', true, ['deployment-controller'], [SCALE, LIST]],
  ['replaces no controller', true, [], [SCALE, LIST]],
  ['has no sample to replace it for', false, ['replicaset-controller'], [LIST]],
])('suggests only what works when the function %s', (_, sample, replaced, expected) => {
  const at = { kubeconfig: '/k', url: 'http://127.0.0.1:1', kubectl: undefined };
  const text = whatNext({ ...at, sample, replaced, fromSources: false });
  expect([SCALE, EXPLAIN, LIST].filter((command) => text.includes(command))).toEqual(expected);
});

it('suggests nothing that acts in another namespace than the sample has, and quotes what a shell would divide', () => {
  const at = { kubeconfig: "/my files/ann's", url: 'http://127.0.0.1:1', kubectl: undefined, replaced: [] };
  const lines = whatNext({ ...at, sample: true, fromSources: false }).split('\n');
  expect(lines.filter((line) => /kubectl .*(scale|delete)/.test(line)).map((line) => line.trim())).toEqual([
    SCALE,
    'kubectl -n default delete pod -l app=hello',
  ]);
  expect(lines.map((line) => line.trim())).toContain("export KUBECONFIG='/my files/ann'\\''s'");
});
