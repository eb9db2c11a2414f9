import { Command, InvalidArgumentError, Option } from 'commander';
import type { ChosenKeys, GetFlags, OutputFlags, KeyVerb } from './gateway-verbs.ts';

const load = () => import('./gateway-verbs.ts');

/** The commands that ask a running gateway about controllers and keys, and change their queues. */
export function gatewayCommands(): Command[] {
  return [
    getCommand(),
    explainCommand(),
    ...VERBS.map(([name, what]) => verbCommand(name, what)),
    ...pauseCommands(),
    rightsCommand(),
  ];
}

function getCommand(): Command {
  const get = new Command('get').description('list what a running gateway has, or watch it');
  const list = (usage: string, description: string): Command =>
    withOutput(withGateway(get.command(usage)))
      .description(description)
      .option('-w, --watch', 'go on, and print each row again when it changes', false);
  list('controllers', 'every controller with its state and the sizes of its lists of keys').action(
    async (options: GetFlags) => (await load()).getControllers(options),
  );
  list('keys <controller>', 'the keys of a controller, by list')
    .addOption(new Option('--list <name>', 'only these keys').choices(LISTS))
    .option('--offset <number>', 'how many keys to skip', count, 0)
    .option('--limit <number>', 'how many keys to show', count, 100)
    .action(async (controller: string, options: GetFlags & { list?: string; offset: number; limit: number }) =>
      (await load()).getKeys(controller, { ...options, lists: LISTS }),
    );
  list('dead-letters [controller]', 'keys that are not tried again by themselves, of one controller or of all')
    .option('--limit <number>', 'how many keys of a controller to show', count, 100)
    .action(async (controller: string | undefined, options: GetFlags & { limit: number }) =>
      (await load()).getDeadLetters(controller, options),
    );
  list('views', 'the cached kinds').action(async (options: GetFlags) => (await load()).getViews(options));
  list('functions', 'the functions that the gateway knows').action(async (options: GetFlags) =>
    (await load()).getFunctions(options),
  );
  return get;
}

function explainCommand(): Command {
  return withOutput(withGateway(new Command('explain')), 'text')
    .description(
      'say why a key ran, what happened, what it waits for, and when it runs next; exit code 3: there is no such object, 4: the cache keeps it out, 5: the declaration leaves it out',
    )
    .argument('<controller>', 'name of the controller')
    .argument('<key>', 'namespace/name, or name')
    .action(async (controller: string, key: string, options: OutputFlags) =>
      (await load()).explain(controller, key, options),
    );
}

const VERBS: readonly (readonly [KeyVerb, string])[] = [
  ['trigger', 'queue keys of a controller: named ones at once, others behind those of events'],
  ['replay', 'run dead letters again'],
  ['drop', 'forget dead letters; the next event runs them'],
];

function verbCommand(name: KeyVerb, what: string): Command {
  const keys = name === 'trigger' ? 'keys' : 'dead letters';
  return withOutput(withGateway(new Command(name)), 'text')
    .description(what)
    .argument('<controller>', 'name of the controller')
    .argument('[keys...]', 'namespace/name, or name')
    .option('--namespace <name>', `all ${keys} of a namespace`)
    .option('--all', `all ${keys}`)
    .action(async (controller: string, chosen: string[], options: OutputFlags & ChosenKeys) =>
      (await load()).changeKeys(name, { controller, keys: chosen }, options),
    );
}

function pauseCommands(): Command[] {
  return (['pause', 'resume'] as const).map((name) =>
    withOutput(withGateway(new Command(name)), 'text')
      .description(
        name === 'pause'
          ? 'start no runs of a controller, a namespace or a key (namespace/name) until resume'
          : 'end a pause; one by the annotation levelhook.dev/paused ends with the annotation',
      )
      .argument('<controller>', 'name of the controller')
      .argument('[key]', 'namespace/name, or name')
      .option('--namespace <name>', 'only the keys of this namespace')
      .action(async (controller: string, key: string | undefined, options: OutputFlags & { namespace?: string }) =>
        (await load()).pauseOrResume(name, { controller, key }, options),
      ),
  );
}

function rightsCommand(): Command {
  return withOutput(withGateway(new Command('rights')))
    .description('list the rights of a function with credentials: proxy, and when it used each last')
    .argument('<controller>', 'name of the controller')
    .option('--namespace <name>', 'the rights that count there (default: the namespace of its ServiceAccount)')
    .action(async (controller: string, options: OutputFlags & { namespace?: string }) =>
      (await load()).rights(controller, options),
    );
}

function withOutput(command: Command, people: 'table' | 'text' = 'table'): Command {
  return command.addOption(outputOption(people));
}

export function outputOption(people: 'table' | 'text'): Option {
  return new Option('-o, --output <form>', 'form of the answer').choices([people, 'json', 'yaml']).default(people);
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
