import { join } from 'node:path';
import { afterAll, it } from 'vitest';
import { checkAlert } from '../../harness/prometheus.ts';
import { Started } from '../../harness/started.ts';

const RULES = join(import.meta.dirname, '../../../infra/observability/rules.yaml');
const started = new Started();

afterAll(() => started.stop());

/** The series of the circuits. `open` says for each gateway why its circuits are open. */
function circuits(open: Readonly<Record<string, readonly string[]>>, by = 'pod'): Record<string, number> {
  const all = Object.entries(open).flatMap(([gateway, reasons]) =>
    ['gone', 'unreachable', 'starting'].map((reason): [string, number] => [
      `levelhook_circuit_breaker_open{job="levelhook", ${by}="${gateway}", controller="web", reason="${reason}"}`,
      reasons.includes(reason) ? 1 : 0,
    ]),
  );
  return Object.fromEntries(all);
}

it.each([
  ['each gateway for the same reason', circuits({ a: ['gone'], b: ['gone'] }), true],
  ['each gateway for another reason', circuits({ a: ['gone'], b: ['unreachable'] }), true],
  ['each gateway, without labels of pods', circuits({ a: ['gone'], b: ['unreachable'] }, 'instance'), true],
  ['one of two gateways', circuits({ a: ['unreachable'], b: [] }), false],
  ['one of two gateways, without labels of pods', circuits({ a: ['unreachable'], b: [] }, 'instance'), false],
  ['each gateway, because its function starts', circuits({ a: ['starting'], b: ['starting'] }), false],
  ['no gateway', circuits({ a: [], b: [] }), false],
])('a function is down when its circuit is open in every gateway: in %s', async (_, series, isDown) => {
  const firing = isDown ? ['{controller="web"}'] : [];
  const labels = ['controller'];
  await checkAlert(started, RULES, { alert: 'LevelhookFunctionDown', series, afterMinutes: 15, labels, firing });
});

it.each([
  ['problem', 35, true],
  ['starting', 35, true],
  ['dead letters', 35, true],
  ['paused', 35, true],
  ['paused', 25, false],
  ['partly paused', 35, false],
  ['failing', 35, false],
  ['circuit open', 35, false],
  ['idle', 35, false],
])('a controller that is %s for %i minutes needs a person: %s', async (state, afterMinutes, needsPerson) => {
  await checkAlert(started, RULES, {
    alert: 'LevelhookControllerNeedsPerson',
    series: { [`levelhook_controller_state{job="levelhook", pod="a", controller="web", state="${state}"}`]: 1 },
    afterMinutes,
    labels: ['controller', 'state'],
    firing: needsPerson ? [`{controller="web", state="${state}"}`] : [],
  });
});

it.each([
  [1700, 10, false],
  [1801, 4, false],
  [1801, 10, true],
])(
  'a key that has been failing for %i s, as seen for %i minutes, is an alert: %s',
  async (seconds, afterMinutes, isLong) => {
    const series = 'levelhook_queue_oldest_failing_seconds{job="levelhook", pod="a", name="web"}';
    await checkAlert(started, RULES, {
      alert: 'LevelhookKeysFail',
      series: { [series]: seconds },
      afterMinutes,
      labels: ['name'],
      firing: isLong ? ['{name="web"}'] : [],
    });
  },
);

it.each([
  [70, false],
  [7200, true],
])('a cache that is %i s behind while no gateway leads is behind: %s', async (seconds, isBehind) => {
  await checkAlert(started, RULES, {
    alert: 'LevelhookViewBehind',
    series: { 'levelhook_view_behind_seconds{job="levelhook", pod="a", resource="v1/Pod"}': seconds },
    afterMinutes: 10,
    labels: ['resource'],
    firing: isBehind ? ['{resource="v1/Pod"}'] : [],
  });
});
