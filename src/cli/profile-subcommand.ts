import { Command, InvalidArgumentError, Option } from 'commander';
import { DEFAULT_PROFILE_SECONDS, MAX_PROFILE_SECONDS, PROFILE_KINDS } from '../contract/node/profile-request.ts';
import type { ProfileFlags } from './profile-command.ts';
import { withGateway } from './gateway-commands.ts';

/** `levelhook profile …`: a profile of a running gateway, or of the function of one of its controllers. */
export function profileSubcommand(): Command {
  return withGateway(new Command('profile'))
    .description('write a profile of a running gateway, or of a function, to a file')
    .argument('[controller]', 'the controller whose function is profiled (default: the gateway itself)')
    .addOption(
      new Option('--kind <kind>', 'processor time, memory in use, or all memory that was allocated')
        .choices(PROFILE_KINDS)
        .default('cpu'),
    )
    .option('--seconds <number>', `how long, at most ${MAX_PROFILE_SECONDS}`, seconds, DEFAULT_PROFILE_SECONDS)
    .addOption(
      new Option('--format <format>', 'for go tool pprof, or for Chrome’s DevTools')
        .choices(['pprof', 'chrome'])
        .default('pprof'),
    )
    .option('--out <file>', 'where to write it (default: its name and kind, in this folder)')
    .action(async (controller: string | undefined, options: ProfileFlags) =>
      (await import('./profile-command.ts')).profileCommand(controller, options),
    );
}

function seconds(text: string): number {
  const value = Number(text);
  if (!/^[0-9]{1,2}$/.test(text) || value < 1 || value > MAX_PROFILE_SECONDS) {
    throw new InvalidArgumentError(`A profile takes 1 to ${MAX_PROFILE_SECONDS} seconds.`);
  }
  return value;
}
