import { readFileSync } from 'node:fs';
import { describe, expect, inject, it } from 'vitest';
import { RedisQueueFixture } from '../../harness/redis-queue.ts';
import { Setting } from '../../contract/work-queue/setting.ts';
import { busyKeyRests, keysThatAskAgain, slotsAreCounted, timerSurvivesTheLook } from './scenarios.ts';

/** How long keys ask again in `npm test`; a minute in the long variant. Milliseconds of the queue's clock. */
const ASK_AGAIN_MS = Number(process.env['QUEUE_ASK_AGAIN_MS'] ?? 8000);

/**
 * A rule of the scripts that is easy to take for needless: the scenario that breaks without it, and how it is taken
 * out.
 */
const rules: [
  string,
  (setting: Setting, fixture: RedisQueueFixture) => Promise<void>,
  { script: string; from: string; to: string },
][] = [
  [
    'a score is moved only if it is unchanged',
    (_, fixture) => timerSurvivesTheLook(fixture),
    {
      script: 'wake',
      from: 'if score and tonumber(score) == tonumber(ARGV[at + 1]) then',
      to: 'if score then',
    },
  ],
  [
    'a key in flight is not started',
    busyKeyRests,
    { script: 'start', from: '  if run then\n    redis.call', to: '  if false then\n    redis.call' },
  ],
  [
    'the slots of all gateways are counted',
    slotsAreCounted,
    { script: 'start', from: "  if free <= reserved_slots then return { 'full' } end\n", to: '' },
  ],
];

describe.each(rules)('%s', (_, scenario, { script, from, to }) => {
  const play = async (scripts?: Record<string, string>): Promise<void> => {
    let fixture: RedisQueueFixture | undefined;
    const setting = await Setting.create(
      async (clock) => (fixture = await RedisQueueFixture.create(inject('redisUrl'), clock, scripts)),
      false,
    );
    setting.process = setting.newProcess();
    try {
      if (fixture) await scenario(setting, fixture);
    } finally {
      await setting.close();
    }
  };

  it('keeps its promise', () => play(), 120_000);

  it('and without the rule it is broken', async () => {
    const lua = readFileSync(
      new URL(`../../../src/gateway/controller/workqueue/records/lua/${script}.lua`, import.meta.url),
      'utf8',
    );
    const mutated = lua.replace(from, to);
    expect(mutated).not.toBe(lua);
    await expect(play({ [script]: mutated })).rejects.toThrow();
  });
});

it(`500 keys that each ask again after 50 ms are alive after ${ASK_AGAIN_MS} ms`, async () => {
  const setting = await Setting.create((clock) => RedisQueueFixture.create(inject('redisUrl'), clock), false);
  setting.process = setting.newProcess();
  await keysThatAskAgain(setting, ASK_AGAIN_MS);
  await setting.close();
}, 600_000);
