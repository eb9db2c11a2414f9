import { controller, resource } from 'levelhook/function';
import { serveController } from 'levelhook/function/node';

/** As many as are allocated in six seconds: a profile of two finds them in use, whenever it ends. */
const MOST = 300_000;
const kept: object[] = [];
let next = 0;

function burnProcessorTime(): number {
  let sum = 0;
  for (const from = performance.now(); performance.now() < from + 8;) {
    // Small integers allocate nothing, in code that V8 has not optimized either: fractions would hide the other
    // function.
    for (let step = 0; step < 10_000; step += 1) sum = (31 * sum + step) & 0xffff;
  }
  return sum;
}

function allocateAndKeep(): void {
  for (let at = 0; at < 1000; at += 1) {
    kept[next] = { at, text: `kept ${at}` };
    next = (next + 1) % MOST;
  }
}

/**
 * Two controllers whose process is busy, and allocates memory, without any key. A promise calls the function that
 * allocates, because V8 inlines nothing there: a profile of memory names the caller of a function that was inlined.
 */
setInterval(() => {
  burnProcessorTime();
  void Promise.resolve().then(allocateAndKeep);
}, 20);
const named = (name: string) => controller({ name, for: resource('v1', 'ConfigMap') }).reconcile(async () => {});
await serveController([named('busy'), named('other')]);
