import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { VirtualClock } from '../../../test/harness/test-clock.ts';
import { CONTRACT_VERSION, type Description, LEVELHOOK_HEADER } from '../../contract/index.ts';
import type { ControllerSpec } from '../controller/running/controller-spec.ts';
import { Endpoint, type LastAnswer } from '../controller/endpoint/endpoint.ts';
import { FALSE, TRUE } from './conditions.ts';
import { Reachability } from './reachability.ts';

const GOOD = TRUE('Answered', 'The function answers, and is the one that is meant.');

describe('whether a function answers', () => {
  const clock = new VirtualClock();
  let requests: number;
  let name: string;
  let server: Server;
  let spec: ControllerSpec;
  let openReason: string | undefined;
  let lastAnswer: LastAnswer | undefined;
  let reachability: Reachability;

  beforeEach(async () => {
    [requests, name, openReason, lastAnswer] = [0, 'web', undefined, undefined];
    const kind = { apiVersion: 'v1', kind: 'Pod' };
    server = createServer((request, response) => {
      if (request.method === 'POST') {
        // As an SDK of another contract does.
        response.writeHead(400, { [LEVELHOOK_HEADER]: 'v2' }).end('{"error":"the trigger speaks contract v1"}');
        return;
      }
      requests += 1;
      const description = { version: CONTRACT_VERSION, name, for: kind, concurrency: 1, timeoutSeconds: 1 };
      response.end(JSON.stringify({ ...description, owns: [], watches: [], reads: [], indexes: [] }));
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
    const rules = { allow: [new URL(url).origin], loopback: true, tenant: 'shop.' };
    const description = { name: 'web' } as Description;
    spec = { id: 'shop.web', origin: 'declared', declaration: 'd', description, url, rules, ca: undefined, keys: [] };
    reachability = new Reachability(clock);
  });

  afterEach(() => {
    server.closeAllConnections();
    server.close();
  });

  const look = () => reachability.look(spec, 'a', { openReason, lastAnswer });

  /** Looks whenever it is due within this time. */
  async function pass(ms: number): Promise<void> {
    const endMs = clock.now() + ms;
    for (;;) {
      const dueMs = reachability.dueMs('a', openReason);
      if (dueMs > endMs) break;
      clock.jump(Math.max(0, dueMs - clock.now()));
      await look();
    }
    clock.jump(endMs - clock.now());
  }

  it('is asked once of a function that does, and of another declaration of it again', async () => {
    expect(await look()).toEqual(GOOD);
    await pass(86_400_000);
    expect(await look()).toEqual(GOOD);
    expect(requests).toBe(1);
    await reachability.look(spec, 'b', { openReason, lastAnswer });
    expect(requests).toBe(2);
  });

  it('is not asked when an earlier gateway has found that it does', async () => {
    reachability.adopt(GOOD);
    expect(await look()).toEqual(GOOD);
    await pass(86_400_000);
    expect(requests).toBe(0);
    // A change of it is another matter.
    await reachability.look(spec, 'b', { openReason, lastAnswer });
    expect(requests).toBe(1);
  });

  it('reads the answer when the processor time of its tenant allows it', async () => {
    const turn = Promise.withResolvers<void>();
    reachability = new Reachability(clock, async (work) => {
      await turn.promise;
      return work();
    });
    let found: unknown;
    const looking = look().then((finding) => (found = finding));
    await expect.poll(() => requests).toBe(1);
    await sleep(50);
    expect(found).toBeUndefined();
    turn.resolve();
    expect(await looking).toEqual(GOOD);
  });

  it('is asked again by none that has asked before', async () => {
    name = 'another';
    await look();
    reachability.adopt(GOOD);
    expect(await look()).toMatchObject({ status: 'False', reason: 'NameMismatch' });
  });

  it('is asked more and more rarely of a function that answers as it should not', async () => {
    name = 'another';
    expect(await look()).toMatchObject({ status: 'False', reason: 'NameMismatch' });
    await pass(86_400_000);
    // 1, 2, 4 to 512 s, and every ten minutes after that.
    expect(requests).toBe(1 + 10 + Math.floor((86_400 - 1023) / 600));
    name = 'web';
    await pass(600_000);
    expect(await look()).toEqual(GOOD);
  });

  it('is told by an answer to a trigger', async () => {
    name = 'another';
    await look();
    const fine = { text: 'HTTP 200', isFailure: false, contract: CONTRACT_VERSION };
    lastAnswer = { ...fine, wallMs: clock.wallNow() - 1 };
    expect(await look()).toMatchObject({ status: 'False' });
    clock.jump(500);
    lastAnswer = { ...fine, wallMs: clock.wallNow(), contract: undefined };
    expect(await look()).toMatchObject({ status: 'False' });
    lastAnswer = { ...fine, wallMs: clock.wallNow() };
    expect(await look()).toEqual(GOOD);
    await pass(86_400_000);
    expect(requests).toBe(1);
  });

  it('is told by a function that was updated to another contract and refuses the triggers', async () => {
    await look();
    clock.jump(500);
    const refused = { text: 'HTTP 400', isFailure: true, wallMs: clock.wallNow() };
    // An error of its own, and that of a proxy before it.
    for (const contract of [CONTRACT_VERSION, undefined]) {
      lastAnswer = { ...refused, contract };
      expect(await look()).toEqual(GOOD);
    }
    const endpoint = new Endpoint(spec.url, [], { connections: 1, clock, rules: spec.rules! });
    await endpoint.send({ body: '{}', id: 'any', timeoutMs: 5000 });
    await endpoint.close();
    lastAnswer = endpoint.lastAnswer;
    const message = `spec.endpoint: ${spec.url} speaks contract v2, and this gateway v1: update the older one`;
    expect(await look()).toEqual(FALSE('ContractMismatch', message));
    openReason = 'most triggers had no valid answer';
    expect(await look()).toEqual(FALSE('ContractMismatch', message));
    openReason = undefined;
    // The gateway was updated, or the function was put back.
    clock.jump(500);
    lastAnswer = { text: 'HTTP 200', isFailure: false, contract: CONTRACT_VERSION, wallMs: clock.wallNow() };
    expect(await look()).toEqual(GOOD);
  });

  it('is told by the triggers while the circuit breaker is open', async () => {
    await look();
    openReason = 'the function does not answer';
    expect(await look()).toEqual(FALSE('CircuitBreakerOpen', 'spec.endpoint: the function does not answer'));
    await pass(86_400_000);
    openReason = undefined;
    expect(await look()).toEqual(GOOD);
    expect(requests).toBe(1);
  });
});
