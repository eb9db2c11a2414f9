import { applyDefinitions, definitionsOf } from './definitions.ts';
import {
  chooseGround,
  type DataFlags,
  runLines,
  say,
  type Started,
  startGateway,
  startGround,
  untilStopped,
} from './bring-up.ts';
import type { ClusterFlags } from './chosen-cluster.ts';
import { Child } from './child.ts';
import { Family } from './family.ts';
import { shippedFunction } from './function-program.ts';
import { patiently } from './progress.ts';
import { listeningUrls } from './listening.ts';
import { replacedControllers } from './replaced-controllers.ts';
import { askForSample, createSample } from './sample.ts';
import { whatNext } from './what-next.ts';

export interface StartFlags extends ClusterFlags, DataFlags {
  readonly functions: readonly string[];
  readonly sample: boolean;
  readonly port: number;
}

/**
 * `levelhook start`: starts all missing parts in order, shows every trigger, and at Ctrl-C or SIGTERM stops these parts
 * in reverse order. Prints `levelhook ready` alone on a line once keys are being reconciled.
 */
export function startCommand(options: StartFlags): Promise<void> {
  return untilStopped((signal, started) => start(options, signal, started));
}

async function start(options: StartFlags, signal: AbortSignal, started: Started): Promise<void> {
  const functions = options.functions.map(shippedFunction);
  const replaced = replacedControllers(options.functions);
  const chosen = await chooseGround({ ...options, functions, replaced }, started);
  const { cluster } = chosen;
  const sample = options.sample && (cluster === undefined || (await askForSample(cluster.name, signal)));
  const ground = await startGround(chosen, { ...options, replaced }, { signal, started });
  const { functionEnv, kubeconfig, kubectl } = ground;
  // The definitions in the user's own cluster are left to the user: a function waits for them, and says so.
  const definitions = functions.flatMap(({ folder }) => definitionsOf(folder));
  if (cluster === undefined) await applyDefinitions(kubeconfig, definitions);

  const family = new Family({ signal, started, say });
  const lines = runLines();
  const names = new Map<string, string>();
  for (const { name, command } of functions) {
    const listening = Promise.withResolvers<string[]>();
    const fn = new Child(`function ${name}`, command, {
      env: { ...functionEnv, HOST: '127.0.0.1', PORT: '0' },
      onLine: (line) => {
        const urls = listeningUrls(line);
        if (urls) listening.resolve(urls);
        else lines.fn(name, line);
      },
    });
    family.add(fn);
    const urls = await patiently(family.unless(listening.promise), `function ${name} to listen`);
    for (const url of urls) names.set(url, name);
    fn.show();
  }
  const { url } = await startGateway(ground, { port: options.port, functions: names, lines }, { family, signal });
  process.stdout.write('levelhook ready\n');
  const fromSources = import.meta.url.endsWith('.ts');
  process.stdout.write(whatNext({ kubeconfig, url, kubectl, sample, replaced, fromSources }));
  if (sample) await family.unless(createSample(kubeconfig));
  await family.unless(new Promise<never>(() => {}));
}
