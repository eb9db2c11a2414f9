import { expect, it } from 'vitest';
import { resource, silentLogger, silentMetrics } from '../../../core/index.ts';
import { CONTRACT_VERSION, LEVELHOOK_HEADER } from '../../../contract/index.ts';
import { CpuBudgets } from '../../controller/cel/cpu-budget.ts';
import { ReviewSender } from '../../controller/dispatch/review-sender.ts';
import type { Answer, EndpointRequest } from '../../controller/endpoint/endpoint.ts';
import { ReviewApi, type ReviewTaker } from './review-api.ts';

const configMap = { apiVersion: 'v1', kind: 'ConfigMap' };
const review = { apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview' };
const request = {
  uid: 'one',
  kind: { group: '', version: 'v1', kind: 'ConfigMap' },
  resource: { group: '', version: 'v1', resource: 'configmaps' },
  operation: 'CREATE',
};
const MEBIBYTE = 1024 * 1024;
const LONG_PATCH = {
  patchType: 'JSONPatch',
  patch: btoa(JSON.stringify([{ op: 'add', path: '/data', value: { a: 'x'.repeat(2 * MEBIBYTE) } }])),
};
const apiserver = { name: '10.0.0.1', isKnown: true };
const stranger = { name: '10.0.0.2', isKnown: false };

/** A gateway whose time passes only while something waits for a budget. */
class Gateway {
  nowMs = 0;
  readonly budgets = new CpuBudgets({ now: () => this.nowMs, sleep: async (ms) => void (this.nowMs += ms) });
  readonly sent: EndpointRequest[] = [];
  onSend: () => void = () => {};
  readonly #api: ReviewApi;

  constructor() {
    const clock = { now: () => this.nowMs, wallNow: () => this.nowMs, sleep: () => new Promise<void>(() => {}) };
    this.#api = new ReviewApi({
      controllers: () => ({ reviewer: (id) => this.#controller(id, clock), known: () => new Set<string>() }),
      conditions: () => undefined,
      starting: () => false,
      ending: () => false,
      knowsApiservers: false,
      runtime: { clock, logger: silentLogger, metrics: silentMetrics },
    });
  }

  /** Sends a review for a controller. @returns the answer with its body unread. */
  async ask(controller: string, source = apiserver, timeout = '10s'): Promise<Response> {
    const asked = new Request(`https://gateway/webhooks/${controller}/rule?timeout=${timeout}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ ...review, request }),
    });
    return this.#api.handle(asked, source);
  }

  async review(...asked: Parameters<Gateway['ask']>) {
    const answer = await this.ask(...asked);
    const { message } = (await answer.json()) as { message?: string };
    return { status: answer.status, message };
  }

  #controller(id: string, clock: ConstructorParameters<typeof ReviewSender>[0]['clock']): ReviewTaker {
    const send = async (sent: EndpointRequest): Promise<Answer> => {
      this.sent.push(sent);
      this.onSend();
      const response = { uid: request.uid, allowed: true, ...(id === 'labels' ? LONG_PATCH : {}) };
      const body = JSON.stringify({ ...review, response });
      const headers = { [LEVELHOOK_HEADER]: CONTRACT_VERSION };
      return { kind: 'answered', status: 200, headers, body, isStream: false };
    };
    const sender = new ReviewSender({
      functionName: id,
      endpoint: () => ({ send, close: async () => {} }),
      cache: () => ({ views: {} }),
      ages: async () => new Map(),
      clock,
      startWindowMs: 0,
    });
    const type = id === 'labels' ? ('mutating' as const) : ('validating' as const);
    const webhook = { ...configMap, type, name: 'rule', operations: ['CREATE' as const] };
    const budget = this.budgets.of(id, 'tenant');
    return {
      name: id,
      tenant: 'tenant',
      sources: { declaredKinds: [] },
      reviews: { webhooks: [{ webhook, resource: resource('v1', 'ConfigMap') }], sender },
      bounds: {
        budget,
        reviewBudget: ({ isKnown, name }) => (isKnown ? budget : this.budgets.of(`${id} for ${name}`)),
        openHold: () => ({ add: () => true, release: () => {} }),
        admitLine: () => ({}),
      },
    };
  }
}

const TOO_LONG = 'the reviews of the controller took more processor time than they may before the timeout';

it('reviews are decoded when the budget of their controller allows it', async () => {
  const gateway = new Gateway();
  gateway.budgets.of('web', 'tenant').charge(500);
  expect(await gateway.review('web')).toMatchObject({ status: 200 });
  // 200 ms of debt and half of the burst, at 50 ms a second.
  expect(gateway.nowMs).toBeGreaterThan(6900);
  expect(gateway.sent).toHaveLength(1);
});

it('a review whose turn does not come before its timeout is refused, and its function does not get it', async () => {
  const gateway = new Gateway();
  gateway.budgets.of('web', 'tenant').charge(1000);
  expect(await gateway.review('web')).toMatchObject({ status: 504, message: TOO_LONG });
  // In time for the apiserver.
  expect(gateway.nowMs).toBeLessThan(9600);
  expect(gateway.sent).toEqual([]);
});

it('an answer to a review is decoded in the budget of its controller, too', async () => {
  const gateway = new Gateway();
  gateway.onSend = () => void gateway.budgets.of('web', 'tenant').charge(1000);
  expect(await gateway.review('web')).toMatchObject({ status: 504, message: TOO_LONG });
  expect(gateway.sent).toHaveLength(1);
});

it('what an unknown source sends costs the controller nothing of its own', async () => {
  const gateway = new Gateway();
  const own = gateway.budgets.of('web', 'tenant');
  gateway.budgets.of(`web for ${stranger.name}`).charge(1000);
  expect(await gateway.review('web', stranger)).toMatchObject({ status: 504, message: TOO_LONG });
  expect(own.isFull).toBe(true);
  expect(await gateway.review('web', { name: '10.0.0.3', isKnown: false })).toMatchObject({ status: 200 });
  expect(await gateway.review('web', apiserver)).toMatchObject({ status: 200 });
});

it('an answer counts among what the reviews of a tenant take', async () => {
  const gateway = new Gateway();
  const added: (boolean | undefined)[] = [];
  gateway.onSend = () => {
    for (const mebibytes of [63, 1]) added.push(gateway.sent[0]?.hold?.add(mebibytes * MEBIBYTE));
  };
  expect(await gateway.review('web')).toMatchObject({ status: 200 });
  // 64 MiB, the review included.
  expect(added).toEqual([true, false]);
});

it('the time of reading an answer is charged to the budget that pays for the review', async () => {
  const gateway = new Gateway();
  const isFull = (id: string): boolean => gateway.budgets.of(id, 'tenant').isFull;
  gateway.onSend = () => void gateway.sent.at(-1)?.charge?.(1);
  expect(await gateway.review('web', stranger)).toMatchObject({ status: 200 });
  expect([isFull(`web for ${stranger.name}`), isFull('web')]).toEqual([false, true]);
  expect(await gateway.review('web')).toMatchObject({ status: 200 });
  expect(isFull('web')).toBe(false);
});

it('long answers that a source does not take have a bound, which the apiserver is not under', async () => {
  const gateway = new Gateway();
  const answers: Response[] = [];
  do answers.push(await gateway.ask('labels', stranger));
  while (answers.at(-1)?.status === 200 && answers.length < 100);
  expect(answers.at(-1)?.status).toBe(429);
  expect(answers.length).toBeGreaterThan(10);
  expect((await gateway.ask('labels')).status).toBe(200);
  for (const answer of answers) await answer.body?.cancel();
  expect((await gateway.ask('labels', stranger)).status).toBe(200);
});
