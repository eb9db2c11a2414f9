import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import type { ControllerOptions } from '../../../src/function/index.ts';
import { type Cluster, configMaps } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { createSetting, type Setting, uniqueName, untilIdle, untilReady } from '../../harness/levelhook.ts';
import { type Observer, type ObserverSpec, openObserver, openObservers } from '../../harness/observer.ts';
import { openGateway } from '../../harness/opened.ts';
import { Started } from '../../harness/started.ts';
import { defineWebs, type WebKinds } from '../../harness/webs.ts';

const TOKEN = 'the-token-of-this-test';
const VARIABLES = { LEVELHOOK_API_TOKENS: TOKEN };

describe('the keys of a controller', () => {
  const started = new Started();
  const [n, m] = [uniqueName('scope'), uniqueName('scope')];
  let cluster: Cluster;
  let setting: Setting;
  let kinds: WebKinds;

  beforeAll(async () => {
    cluster = await started.cluster(inject('kubeconfig'), n);
    await cluster.createNamespace(m);
    started.add(() => cluster.deleteNamespace(m));
    kinds = await defineWebs(started, cluster, `${n}.levelhook.test`);
    for (const namespace of [n, m]) {
      await create(namespace, 'front', 'front');
      await create(namespace, 'back', 'back');
    }
  });

  afterAll(() => started.stop());

  const create = (namespace: string, name: string, tier: string): Promise<unknown> =>
    cluster.create(kinds.webs, { metadata: { namespace, name, labels: { tier } } });
  const label = (namespace: string, name: string, tier: string | null): Promise<unknown> =>
    cluster.patch(kinds.webs, { namespace, name }, { metadata: { labels: { tier } } });
  const front = (): ObserverSpec => ({
    name: 'front',
    timeoutSeconds: 900,
    for: { resource: kinds.webs, namespaces: [n], labelSelector: { matchLabels: { tier: 'front' } } },
  });

  async function start(observers: readonly Observer[], of: Setting): Promise<{ url: string; stop(): Promise<void> }> {
    const urls = observers.map(({ url }) => url);
    const { process, url } = started.keep(await openGateway(of, urls, VARIABLES));
    await untilReady(url);
    await untilIdle(url);
    const stop = async (): Promise<void> => {
      await process.kill('SIGTERM');
    };
    return { url, stop };
  }

  async function reconcile(gatewayUrl: string, body: object): Promise<{ status: number; answer: unknown }> {
    const headers = { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' };
    const init = { method: 'POST', headers, body: JSON.stringify({ controller: 'front', ...body }) };
    const answer = await fetch(`${gatewayUrl}/reconcile`, init);
    return { status: answer.status, answer: await answer.json() };
  }

  it('are those of its namespaces and its selector, by whatever way', async () => {
    setting = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: inject('redisUrl') });
    const observer = started.keep(await openObserver(setting, front()));
    const gateway = await start([observer], setting);
    const wokenBy = async (step: () => Promise<unknown>): Promise<string[]> => {
      const from = observer.count;
      await step();
      const marker = uniqueName('marker');
      await create(n, marker, 'front');
      await observer.untilWokenBy(`${kinds.webs.apiVersion}/Web ${n}/${marker}`, from);
      await untilIdle(gateway.url);
      return observer.keys(from).filter((key) => key !== `${n}/${marker}`);
    };
    // When all are queued.
    expect(observer.keys()).toEqual([`${n}/front`]);
    // By an event: one that leaves is told once, as deleted.
    expect(await wokenBy(() => label(n, 'back', 'still-back'))).toEqual([]);
    expect(await wokenBy(() => label(m, 'front', 'front'))).toEqual([]);
    expect(await wokenBy(() => label(n, 'back', 'front'))).toEqual([`${n}/back`]);
    expect(await wokenBy(() => label(n, 'back', 'back'))).toEqual([`${n}/back`]);
    expect(observer.seen().findLast(({ key }) => key === `${n}/back`)?.reasons).toMatchObject([{ type: 'deleted' }]);
    expect(await wokenBy(() => label(n, 'back', 'still-back'))).toEqual([]);
    // From outside.
    const key = (namespace: string, name: string) => ({ keys: [{ namespace, name }] });
    expect(await reconcile(gateway.url, key(m, 'front'))).toEqual({
      status: 400,
      answer: { error: `the controller reconciles no Web in the namespace ${m}.` },
    });
    expect(await reconcile(gateway.url, key(n, 'back'))).toEqual({
      status: 400,
      answer: { error: `the controller does not select the Web ${n}/back by its labels.` },
    });
    expect((await reconcile(gateway.url, { selection: { namespace: m } })).status).toBe(400);
    expect(await wokenBy(() => reconcile(gateway.url, key(n, 'gone')))).toEqual([`${n}/gone`]);
    const selected = await wokenBy(() => reconcile(gateway.url, { all: true }));
    expect(selected).toContain(`${n}/front`);
    expect(selected.filter((each) => /back|gone/.test(each) || each.startsWith(m))).toEqual([]);
    await gateway.stop();
  });

  it('are all queued again when the declaration is another one', async () => {
    const again = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: inject('redisUrl') });
    const declarations: [object, string[]][] = [
      [{ namespaces: [m] }, ['back', 'front']],
      [{ namespaces: [m] }, []],
      [{ namespaces: [m], labelSelector: { matchLabels: { tier: 'back' } } }, ['back']],
      [{ namespaces: [m], predicate: { labelSelector: { matchLabels: { tier: 'front' } } } }, ['front']],
      [{ namespaces: [m], predicate: { cel: 'object.metadata.name == "back"' } }, ['back']],
    ];
    for (const [declared, names] of declarations) {
      const spec = { name: 'front', for: { resource: kinds.webs, ...declared }, timeoutSeconds: 900 };
      const observer = started.keep(await openObserver(again, spec));
      const gateway = await start([observer], again);
      await create(m, uniqueName('late'), 'late');
      await untilIdle(gateway.url);
      const initial = observer.seen().filter(({ reasons }) => reasons.some(({ type }) => type === 'initial'));
      const found = initial.map(({ key }) => key).filter((key) => !key.includes('late'));
      expect(found.toSorted(), JSON.stringify(declared)).toEqual(names.map((name) => `${m}/${name}`));
      await gateway.stop();
    }
  });

  it('are none for a declaration that cannot be used, which says why, while other controllers go on', async () => {
    const { webs, sites } = kinds;
    const wrong: [string, Partial<ControllerOptions>, string | RegExp][] = [
      [
        'scope',
        { owns: [{ resource: sites, namespaces: [n] }] },
        /owns[.]0[.]namespaces is not for .*Site, which has no/,
      ],
      [
        'syntax',
        { for: { resource: webs, predicate: { cel: 'object.spec ==' } } },
        /for[.]predicate[.]cel .* line 1, column 1/,
      ],
      ['loops', { watches: [watching('object.all(')] }, /watches[.]0[.]map[.]expression .* at line 1/],
      [
        'nothing',
        { for: { resource: webs, predicate: {} as never } },
        /wrong at for[.]predicate: must have exactly one of/,
      ],
    ];
    for (const [name, options, message] of wrong) {
      const own = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: inject('redisUrl') });
      const declared: ObserverSpec[] = [
        { name, for: webs, ...options },
        { name: 'good', for: { resource: webs, namespaces: [n] }, timeoutSeconds: 900 },
      ];
      const observers = await openObservers(own, declared);
      for (const observer of observers) started.keep(observer);
      const urls = observers.map((observer) => observer.url);
      const { process, url } = started.keep(await openGateway(own, urls));
      const [bad, good] = observers;
      await eventually(async () => expect(await (await fetch(`${url}/readyz`)).text()).toMatch(message));
      await eventually(async () => expect(good?.keys()).toContain(`${n}/front`));
      expect(bad?.count).toBe(0);
      await process.kill('SIGTERM');
    }
  });
});

function watching(expression: string): NonNullable<ControllerOptions['watches']>[number] {
  return { resource: configMaps, map: { by: 'cel', expression } };
}
