import { createHmac } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Queue, Worker } from 'bullmq';
import { Redis } from 'ioredis';
import { Pool } from 'undici';
import { apiserver } from '../kubeconfig.ts';

/**
 * The gateway of the prototype: the shortest line with the same parts. It watches ConfigMaps, applies them to a Redis
 * hash with a script, adds a BullMQ job for each key, and sends a signed request for each job. It has no outbox,
 * backoff, barrier, record of runs, recovery, metrics or limits, so the difference to
 * levelhook is the cost of the guarantees. `gateway.ts KUBECONFIG REDIS_URL FUNCTION_URL SECRET CONCURRENCY`
 */
const [kubeconfig = '', redisUrl = '', functionUrl = '', secret = '', slots = ''] = process.argv.slice(2);
const concurrency = Number(slots);

/**
 * KEYS: the hash of objects. ARGV: name, version and JSON of each object; "" for a deleted object. Returns the names.
 */
const APPLY = `
local changed = {}
for at = 1, #ARGV, 3 do
  local name, version, json = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  local held = redis.call('HGET', KEYS[2], name)
  if held ~= version then
    redis.call('HSET', KEYS[2], name, version)
    if json == '' then redis.call('HDEL', KEYS[1], name) else redis.call('HSET', KEYS[1], name, json) end
    changed[#changed + 1] = name
  end
end
return changed`;

interface WatchEvent {
  readonly type: string;
  readonly object: {
    readonly metadata: { namespace: string; name: string; resourceVersion: string; managedFields?: unknown };
  };
}

const connection = new Redis(redisUrl, { maxRetriesPerRequest: null });
connection.defineCommand('applyObjects', { numberOfKeys: 2, lua: APPLY });
const applyObjects = (connection as Redis & { applyObjects(...given: string[]): Promise<string[]> }).applyObjects.bind(
  connection,
);
const request = apiserver(kubeconfig);
const queue = new Queue<{ key: string }>('keys', { connection, streams: { events: { maxLen: 100 } } });
const pool = new Pool(functionUrl, { connections: concurrency });
const worker = new Worker<{ key: string }>('keys', ({ data }) => trigger(data.key), { connection, concurrency });
worker.on('failed', (_job, error) => process.stderr.write(`${error.message}\n`));

async function trigger(key: string): Promise<void> {
  const body = JSON.stringify({ key });
  const signature = createHmac('sha256', secret).update(body).digest('hex');
  const answer = await pool.request({ method: 'POST', path: '/', headers: { signature }, body });
  await answer.body.dump();
  if (answer.statusCode !== 200) throw new Error(`${key}: the function answered ${answer.statusCode}`);
}

async function apply(events: readonly WatchEvent[]): Promise<void> {
  const given = events.flatMap(({ type, object }) => {
    const { namespace, name, resourceVersion } = object.metadata;
    delete object.metadata.managedFields;
    return [`${namespace}/${name}`, resourceVersion, type === 'DELETED' ? '' : JSON.stringify(object)];
  });
  const changed = await applyObjects('objects', 'versions', ...given);
  const opts = (key: string) => ({
    removeOnComplete: true,
    removeOnFail: true,
    deduplication: { id: key, keepLastIfActive: true },
  });
  await queue.addBulk(changed.map((key) => ({ name: 'reconcile', data: { key }, opts: opts(key) })));
}

/** Reads one watch to its end. Returns the version for the next watch. */
async function watch(from: string): Promise<string> {
  let version = from;
  const query = version
    ? { resourceVersion: version }
    : { sendInitialEvents: true, resourceVersionMatch: 'NotOlderThan', resourceVersion: '' };
  const answer = await request({
    method: 'GET',
    path: '/api/v1/configmaps',
    query: { watch: true, allowWatchBookmarks: true, ...query },
  });
  if (answer.statusCode !== 200) throw new Error(await answer.body.text());
  let rest = '';
  for await (const chunk of answer.body.setEncoding('utf8')) {
    const lines = (rest + String(chunk)).split('\n');
    rest = lines.pop() ?? '';
    const events = lines.map((line) => JSON.parse(line) as WatchEvent);
    for (const { type, object } of events) {
      if (type === 'ERROR') return '';
      version = object.metadata.resourceVersion;
    }
    const changes = events.filter(({ type }) => type !== 'BOOKMARK');
    if (changes.length > 0) await apply(changes);
  }
  process.stdout.write('{"msg":"watch ended"}\n');
  return version;
}

process.stdout.write('{"msg":"listening"}\n');
for (let version = ''; ; await sleep(10)) version = await watch(version);
