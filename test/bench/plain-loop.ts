import { Cluster, configMaps } from '../harness/cluster.ts';
import { ListWatch } from '../../src/gateway/informer/reflector/list-watch.ts';
import { lines } from '../../src/gateway/informer/reflector/lines.ts';

/**
 * The plain code to read all objects, and nothing else: a program of its own, as the gateway is one.
 * `plain-loop.ts <kubeconfig> stream|pages [how many changes to wait for afterwards]`
 */
const [, , kubeconfig = '', form = 'stream', wanted = '0'] = process.argv;
const cluster = await Cluster.connect(kubeconfig);
const listWatch = new ListWatch(cluster.client, configMaps);
const { signal } = new AbortController();
const tell = (what: object): boolean => process.stdout.write(`${JSON.stringify(what)}\n`);
const start = performance.now();
let objects = 0;
if (form === 'pages') {
  for await (const page of listWatch.pages('0', signal)) objects += page.items.length;
  tell({ msg: 'listed', objects, ms: performance.now() - start });
} else {
  const stream = await listWatch.watch(
    { sendInitialEvents: true, resourceVersionMatch: 'NotOlderThan', resourceVersion: '', timeoutSeconds: 600 },
    signal,
  );
  let listed = false;
  let changes = 0;
  let changesFrom = 0;
  reading: for await (const batch of lines(stream)) {
    for (const line of batch) {
      const event = JSON.parse(line.toString('utf8')) as { type: string };
      if (event.type === 'BOOKMARK' && !listed) {
        listed = true;
        tell({ msg: 'listed', objects, ms: performance.now() - start });
        if (Number(wanted) === 0) break reading;
      } else if (!listed) objects += 1;
      else if (event.type !== 'BOOKMARK') {
        if (changes === 0) changesFrom = performance.now();
        changes += 1;
        if (changes < Number(wanted)) continue;
        tell({ msg: 'changed', changes, ms: performance.now() - changesFrom });
        break reading;
      }
    }
  }
}
await cluster.close();
