import { Command, InvalidArgumentError, Option } from 'commander';
import type { GatewayAddress } from './gateway-client.ts';
import type { DeadLetterFlags, QueueFlags } from './queue-command.ts';

/** `levelhook queue …`: shows the queues of a running gateway, and operates them. */
export function queueCommands(): Command {
  const queue = new Command('queue').description(
    'inspect the queues of a running gateway, pause them, and replay or drop dead letters',
  );
  const load = () => import('./queue-command.ts');
  const verb = (usage: string, description: string): Command =>
    withGateway(queue.command(usage)).description(description).option('--json', 'print the answer as JSON');

  verb('list [controller]', 'every queue, or the keys of one controller by list')
    .addOption(new Option('--list <name>', 'only these keys').choices(LISTS))
    .option('--offset <number>', 'how many keys to skip', count, 0)
    .option('--limit <number>', 'how many keys to show', count, 100)
    .action(
      async (controller: string | undefined, options: QueueFlags & { list?: string; offset: number; limit: number }) =>
        (await load()).listCommand(controller, { ...options, lists: LISTS }),
    );
  verb('get <controller> <key>', 'everything about one key: namespace/name, or name').action(
    async (controller: string, key: string, options: QueueFlags) => (await load()).getCommand(controller, key, options),
  );
  for (const name of ['replay', 'drop'] as const) {
    const what = name === 'replay' ? 'run dead letters again' : 'forget dead letters; the next event runs them';
    verb(`${name} <controller> [keys...]`, what)
      .option('--namespace <name>', 'all dead letters of a namespace')
      .option('--all', 'all dead letters')
      .action(async (controller: string, keys: string[], options: DeadLetterFlags) =>
        (await load()).deadLettersCommand(name, controller, keys, options),
      );
  }
  for (const name of ['pause', 'resume'] as const) {
    const what =
      name === 'pause'
        ? 'start no runs of a controller, a namespace or a key (namespace/name) until resume'
        : 'end a pause; one by the annotation levelhook.dev/paused ends with the annotation';
    verb(`${name} <controller> [key]`, what)
      .option('--namespace <name>', 'only the keys of this namespace')
      .action(async (controller: string, key: string | undefined, options: QueueFlags & { namespace?: string }) =>
        (await load()).pauseCommand(name, { controller, key }, options),
      );
  }
  return queue;
}

/** `levelhook explain …`: everything that a running gateway remembers of one key. */
export function explainSubcommand(): Command {
  return withGateway(new Command('explain'))
    .description('say why a key ran, what happened, what it waits for, and when it runs next')
    .argument('<controller>', 'name of the controller')
    .argument('<key>', 'namespace/name, or name')
    .addOption(new Option('--output <form>', 'form of the answer').choices(['text', 'json']).default('text'))
    .action(async (controller: string, key: string, options: GatewayAddress & { output: 'text' | 'json' }) =>
      (await import('./queue-command.ts')).explainCommand(controller, key, options),
    );
}

/** Adds the options of a command that calls a running gateway. */
export function withGateway(command: Command): Command {
  return command
    .addOption(
      new Option('--gateway <url>', "the gateway's own server")
        .env('LEVELHOOK_GATEWAY')
        .default('http://127.0.0.1:8787')
        .argParser(gatewayUrl),
    )
    .addOption(
      new Option(
        '--token-file <file>',
        'token for a gateway that is not on loopback (default: $LEVELHOOK_GATEWAY_TOKEN)',
      ).env('LEVELHOOK_GATEWAY_TOKEN_FILE'),
    )
    .option('--kubeconfig <file>', 'ask with the token of its user instead')
    .addOption(
      new Option('--ca-file <file>', 'certificate authorities of the gateway (default: those of Node)').env(
        'LEVELHOOK_GATEWAY_CA_FILE',
      ),
    );
}

/** A copy of `KEY_LISTS`, because the module of a command is loaded only on demand. */
const LISTS = ['queued', 'running', 'timers', 'failing', 'backlog', 'waiting', 'dead'];

function gatewayUrl(text: string): string {
  if (!URL.canParse(text) || !/^https?:$/.test(new URL(text).protocol)) {
    throw new InvalidArgumentError('Write it as http://127.0.0.1:8787.');
  }
  // The gateway serves its paths at the root of its server.
  const { href, origin } = new URL(text);
  if (href !== `${origin}/`) throw new InvalidArgumentError(`Write it as ${origin}, with nothing behind the port.`);
  return text;
}

function count(text: string): number {
  if (!/^[0-9]{1,9}$/.test(text)) throw new InvalidArgumentError('Write a whole number.');
  return Number(text);
}
