import { Argument, Command, CommanderError, InvalidArgumentError, Option } from 'commander';
import { messageOf, printable, UserError } from '../core/index.ts';
import type { AddFlags } from './add-command.ts';
import type { CreateFlags } from '../create/create-command.ts';
import type { CrdsOptions } from './crds-command.ts';
import type { DevFlags } from './dev-command.ts';
import type { DoctorFlags } from './doctor-command.ts';
import type { GatewayFlags } from './gateway-command.ts';
import type { ManifestCommandOptions } from './manifest-command.ts';
import { packageVersion } from './package-root.ts';
import { profileSubcommand } from './profile-subcommand.ts';
import { gatewayCommands, outputOption } from './gateway-commands.ts';
import type { StartFlags } from './start-command.ts';
import type { TokenOptions } from './token-command.ts';
import type { TypesOptions } from './types-command.ts';
import type { WebhookFlags } from './webhook-route.ts';

/**
 * The command line. Commands are loaded on demand, because all of them together take a second. Mistakes of the user
 * end in one sentence and exit code 1 (2 of `doctor`, whose 1 means a problem); only our own faults show a stack.
 */
export async function main(argv: readonly string[]): Promise<void> {
  const program = new Command('levelhook')
    .description('Kubernetes controllers as serverless functions.')
    .version(packageVersion())
    .exitOverride()
    .configureOutput({ outputError: () => {} });
  program
    .command('start')
    .description(
      'start the missing parts (control plane, Redis), the gateway and the functions, and print each trigger',
    )
    .option('--kubeconfig <file>', 'use this cluster (default: a control plane of its own)')
    .option('--context <name>', 'use this context, of the file of --kubeconfig or of those that kubectl reads')
    .option('--built-in-off', 'the controllers of the cluster that the functions take over from are off')
    .option(
      '--functions <names>',
      'the functions in functions/ to run, such as replicaset,examples/01-minimal',
      names,
      ['replicaset'],
    )
    .option('--no-sample', 'do not create the sample object and do not ask about it')
    .addOption(dataOption())
    .option('--fresh', FRESH, false)
    .option('--port <number>', 'port of health, metrics and dashboard; 0 for any', port, 8787)
    .action(async (options: StartFlags) => (await import('./start-command.ts')).startCommand(options));
  program
    .command('init')
    .description('write a new project: a controller, its kind, its tests and all that it needs to run')
    .argument('[folder]', 'an empty folder (default: this one)')
    .option('--name <name>', "of the controller (default: the folder's)")
    .option(
      '--kind <group/version/kind>',
      'that it reconciles: your own, or v1/ConfigMap (default: example.com/v1/Site)',
    )
    .option('--language <name>', 'typescript, python or go (default: typescript)')
    .option('--package-manager <name>', 'npm or pnpm (default: the one that runs this)')
    .option('--no-install', 'install no packages')
    .action(async (folder: string | undefined, options: CreateFlags) => {
      await (await import('../create/create-command.ts')).createCommand(folder, options, packageVersion());
    });
  program
    .command('add')
    .description('add to the project in this folder: a controller with its tests, a kind of its own, or a webhook')
    .addArgument(new Argument('<what>', 'what to add').choices(['controller', 'kind', 'webhook']))
    .argument('<name>', 'its name; of a kind group/version/kind')
    .option('--kind <group/version/kind>', 'that the controller reconciles, or the webhook reviews')
    .action(async (what: 'controller' | 'kind' | 'webhook', name: string, options: AddFlags) =>
      (await import('./add-command.ts')).addCommand(what, name, options),
    );
  program
    .command('dev')
    .description(
      'run the functions of this project with a gateway and a cluster of its own, and start them again when a file changes',
    )
    .argument('[entries...]', 'a module (.ts, .js), a script (.py) or a folder with a go.mod (default: src/node.ts)')
    .option('--kubeconfig <file>', 'use this cluster (default: a control plane of its own)')
    .option('--context <name>', 'use this context, of the file of --kubeconfig or of those that kubectl reads')
    .addOption(dataOption())
    .option('--fresh', FRESH, false)
    .option('--port <number>', 'port of health, metrics and dashboard; 0 for any', port, 8787)
    .option('--run <command>', 'run this, such as tests, once the functions run, and end with its exit code')
    .action(async (entries: string[], options: DevFlags) =>
      (await import('./dev-command.ts')).devCommand(entries, options),
    );
  program
    .command('gateway')
    .description('run the gateway alone, configured by its environment variables (infra/docs/settings.md)')
    .option('--kubeconfig <file>', 'default: $KUBECONFIG, ~/.kube/config, or the pod’s service account')
    .option('--port <number>', 'port of health, metrics and dashboard, instead of the environment’s', port)
    .action(async (options: GatewayFlags) => (await import('./gateway-command.ts')).gatewayCommand(options));
  program
    .command('doctor')
    .description(
      'look at everything that the gateway needs (Redis, apiserver, rights, functions), by its environment variables; exit code 1: there is a problem',
    )
    .option('--kubeconfig <file>', 'default: $KUBECONFIG, ~/.kube/config, or the pod’s service account')
    .addOption(outputOption('text'))
    .exitOverride((error) => {
      // Code 1 means that it has found a problem.
      throw new CommanderError(error.exitCode === 0 ? 0 : 2, error.code, error.message);
    })
    .action(async (options: DoctorFlags) => (await import('./doctor-command.ts')).doctorCommand(options));
  program
    .command('types')
    .description(
      'write TypeScript types of custom resources, from files with their definitions, or else from the cluster',
    )
    .argument('[files...]', 'YAML or JSON files with CustomResourceDefinitions')
    .option('--kubeconfig <file>', 'default: $KUBECONFIG, ~/.kube/config, or the pod’s service account')
    .option('--only <names>', 'only for these definitions, such as widgets.example.com', names, [])
    .option('--out <folder>', 'folder for the modules', 'types')
    .option(
      '--from <package>',
      'what the modules import, such as @levelhook/function',
      packageName,
      'levelhook/function',
    )
    .action(async (files: string[], options: TypesOptions) => {
      await (await import('./types-command.ts')).typesCommand(files, options);
    });
  program
    .command('crds')
    .description('write the CustomResourceDefinitions of the kinds that types of this project declare by @kind')
    .argument('[files...]', 'modules with these types (default: those in src)')
    .option('--out <folder>', 'folder for the definitions', 'crds')
    .option('--check', 'write nothing; exit code 1: a definition is stale', false)
    .action(async (files: string[], options: CrdsOptions) => {
      await (await import('./crds-command.ts')).crdsCommand(files, options);
    });
  program
    .command('manifest')
    .description(
      'print the manifests that run a function in a cluster: its ServiceAccount, rights, ReconcileFunction and webhooks',
    )
    .argument('<url>', 'URL of the running function, which is asked for its description')
    .requiredOption('--namespace <name>', 'namespace of the function in the cluster')
    .option('--service <name:port>', 'call it through this Service in the cluster (default: at the URL)')
    .option('--service-account <name>', 'ServiceAccount whose rights limit what it may read (default: its name)')
    .option('--secret <name>', 'Secret with its signing secrets (default: its name and -signing)')
    .option('--credentials <who>', 'with whose credentials it writes: own, token or proxy (default: own)')
    .option(
      '--gateway-service <namespace/name:port>',
      'the apiserver calls webhooks through this Service (default: levelhook/levelhook:443)',
    )
    .option('--webhook-url <url>', 'it calls them at this https URL instead')
    .option('--direct', 'it calls the Service of the function instead')
    .option('--cert-manager <namespace/certificate>', 'cert-manager writes their CA (default: the gateway does)')
    .option('--ca-file <file>', 'the CA of the webhooks, in PEM form')
    .option('--crd <file>', 'print the definition in this file with the conversion (default: the conversion alone)')
    .option(
      '--exclude-namespace <name...>',
      'review no object of these, such as the namespace of Redis, without which no gateway starts',
    )
    .option('--kubeconfig <file>', 'default: $KUBECONFIG, ~/.kube/config, or the pod’s service account')
    .action(async (url: string, options: ManifestCommandOptions & WebhookFlags) => {
      await (await import('./manifest-command.ts')).manifestCommand(url, options);
    });
  for (const command of gatewayCommands()) program.addCommand(withErrorsAsSentences(command));
  program.addCommand(withErrorsAsSentences(profileSubcommand()));
  program
    .command('token')
    .description(
      'print a token with which kubectl or another client reads the cache; uses the environment variables of the gateway',
    )
    .requiredOption('--kinds <kinds>', 'kinds that may be read, such as v1/Pod,apps/v1/Deployment', names)
    .option('--namespaces <names>', 'namespaces that may be read (default: all)', names, [])
    .option('--minutes <number>', 'validity, at most 1440', minutes, 60)
    .option('--name <name>', 'name of the reader, for refusals and for the limit of requests', 'person')
    .option('--kubeconfig <file>', 'default: $KUBECONFIG, ~/.kube/config, or the pod’s service account')
    .action(async (options: TokenOptions) => (await import('./token-command.ts')).tokenCommand(options));
  // The command `complete`: it asks for all others, and only here it takes time.
  if (COMPLETES.has(argv[2] ?? '--help')) (await import('@bomb.sh/tab/commander')).default(program);
  const words = callOfUnknown(program, argv) ?? argv;
  try {
    await program.parseAsync(words);
  } catch (error) {
    if (error instanceof CommanderError && !error.message.startsWith('error: ')) {
      // Commander has printed the help or the version.
      process.exitCode = error.exitCode;
      return;
    }
    process.stderr.write(printable(`levelhook: ${textOf(error, commandOf(program, words))}\n`));
    process.exitCode = error instanceof CommanderError ? error.exitCode : 1;
  }
}

/** Sets options that subcommands of `command()` inherit, and subcommands of `addCommand` do not. */
function withErrorsAsSentences(command: Command): Command {
  for (const each of [command, ...command.commands]) each.exitOverride().configureOutput({ outputError: () => {} });
  return command;
}

/**
 * A request for the help of an unknown command, as a call of this command, which commander refuses by name. It would
 * answer the request with the help of all commands.
 * @returns undefined when the command line names no unknown command.
 */
function callOfUnknown(program: Command, argv: readonly string[]): string[] | undefined {
  let { commands } = program;
  for (const word of argv.slice(2)) {
    if (word.startsWith('-') || commands.length === 0) return undefined;
    if (word === 'help') continue;
    const named = commands.find((each) => each.name() === word);
    if (!named) return argv.filter((each) => !['help', '--help', '-h'].includes(each));
    ({ commands } = named);
  }
  return undefined;
}

/** The subcommand that a command line names, whose help has its options: `levelhook get keys`. */
function commandOf(program: Command, argv: readonly string[]): string {
  const words = [program.name()];
  let { commands } = program;
  for (const word of argv.slice(2)) {
    const named = commands.find((each) => each.name() === word);
    if (!named) break;
    words.push(word);
    ({ commands } = named);
  }
  return words.join(' ');
}

function textOf(error: unknown, command: string): string {
  if (error instanceof CommanderError) {
    // `error: unknown option '--prot'`, and on a second line `(Did you mean --port?)`.
    const sentence = error.message.replace(/^error: /, '').replaceAll(/\s*\n\s*/g, ' ');
    return `${sentence.replace(/[.]$/, '')}; ${command} --help shows the usage.`;
  }
  if (error instanceof UserError) return error.message.replace(/(?<![.!?])$/, '.');
  return (error instanceof Error ? error.stack : undefined) ?? messageOf(error);
}

const COMPLETES = new Set(['complete', 'help', '--help', '-h']);

const FRESH = 'begin with an empty cluster and empty queues';

function dataOption(): Option {
  return new Option('--data <folder>', 'keep cluster and queues here between starts')
    .env('LEVELHOOK_DATA')
    .default('.levelhook');
}

function names(text: string): string[] {
  const found = text.split(',').map((name) => name.trim());
  if (found.includes('')) throw new InvalidArgumentError('Separate names by single commas.');
  return found;
}

function packageName(text: string): string {
  if (/^(@[a-z0-9][a-z0-9._-]*\/)?[a-z0-9][a-z0-9._/-]*$/.test(text)) return text;
  throw new InvalidArgumentError('It is the name of a package or of one of its paths.');
}

function minutes(text: string): number {
  const value = Number(text);
  // The current signing key is valid for another day at least.
  if (!/^[0-9]+$/.test(text) || value < 1 || value > 1440) {
    throw new InvalidArgumentError('A token is valid for 1 to 1440 minutes.');
  }
  return value;
}

function port(text: string): number {
  const value = Number(text);
  if (!/^[0-9]+$/.test(text) || value > 65_535) throw new InvalidArgumentError('A port is a number from 0 to 65535.');
  return value;
}
