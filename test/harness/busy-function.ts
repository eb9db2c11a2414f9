import { setFlagsFromString } from 'node:v8';
import { controller, resource } from 'levelhook/function';
import { serveController } from 'levelhook/function/node';

// A profile of memory names the function into which another one was inlined.
for (const compiler of ['turbo', 'maglev']) setFlagsFromString(`--no-${compiler}-inlining`);

const kept: object[] = [];

function burnProcessorTime(ms: number): number {
  let sum = 0;
  for (const from = performance.now(); performance.now() < from + ms;) sum += Math.sqrt(sum + 1);
  return sum;
}

function allocateAndKeep(): void {
  for (let at = 0; at < 1000; at += 1) kept.push({ at, text: `kept ${at}` });
  if (kept.length > 300_000) kept.length = 0;
}

/** Two controllers whose process is busy, and allocates memory, without any key. */
setInterval(() => {
  burnProcessorTime(8);
  allocateAndKeep();
}, 20);
const named = (name: string) => controller({ name, for: resource('v1', 'ConfigMap') }).reconcile(async () => {});
await serveController([named('busy'), named('other')]);
