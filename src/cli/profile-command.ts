import { writeFileSync } from 'node:fs';
import { messageOf, UserError } from '../core/index.ts';
import { PROFILE_PATH, type ProfileKind } from '../contract/node/profile-request.ts';
import { downloadFromGateway, type GatewayAddress } from './gateway-client.ts';

export interface ProfileFlags extends GatewayAddress {
  readonly kind: ProfileKind;
  readonly seconds: number;
  readonly format: 'pprof' | 'chrome';
  readonly out?: string;
}

/**
 * Writes a profile to a file, and prints how to open it.
 * @param controller whose function is profiled. Undefined: the gateway itself.
 */
export async function profileCommand(controller: string | undefined, options: ProfileFlags): Promise<void> {
  const { kind, seconds, format } = options;
  const of = controller === undefined ? '' : `/controllers/${encodeURIComponent(controller)}`;
  const query = new URLSearchParams({ seconds: String(seconds), format });
  const name = kind === 'cpu' ? 'profile' : kind;
  const type = format === 'pprof' ? 'application/octet-stream' : 'application/json';
  const bytes = await downloadFromGateway(options, `${PROFILE_PATH}${of}/${name}?${query.toString()}`, type);
  const file = options.out ?? defaultFile(controller ?? 'gateway', options);
  try {
    writeFileSync(file, bytes);
  } catch (error) {
    throw new UserError(`The profile cannot be written to ${file} (${messageOf(error)}): set --out.`);
  }
  const panel = kind === 'cpu' ? 'Performance' : 'Memory';
  const opens = format === 'pprof' ? `go tool pprof -top ${file}` : `Chrome DevTools, panel ${panel}, Load profile`;
  process.stdout.write(`wrote ${file}: ${opens}\n`);
}

/** DevTools recognises its formats by these extensions. */
function defaultFile(of: string, { kind, format }: ProfileFlags): string {
  const chrome = kind === 'cpu' ? 'cpuprofile' : 'heapprofile';
  return `${of.replaceAll('/', '_')}-${kind}.${format === 'chrome' ? chrome : 'pb.gz'}`;
}
