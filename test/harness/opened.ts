import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import type { Controller } from 'levelhook/function';
import { runGateway } from '../../src/cli/gateway-command.ts';
import { controllerApp } from '../../src/function/node/serve-controller.ts';
import { createTriggerServer } from '../../src/function/node/trigger-server.ts';
import { messageOf } from '../../src/core/index.ts';
import { readConfig } from '../../src/gateway/index.ts';
import { functionVariables, gatewayVariables, type Listening, type Setting } from './levelhook.ts';
import { type Line, type Program, ProgramLines } from './program.ts';

/** A program in the test's own process, and where it listens. */
export type Opened = Listening<Program>;

/**
 * A gateway in the test's own process, which need not be ready yet: the same program as `startGateway`'s, without the
 * second that a process takes to load it. For tests that neither kill nor freeze it, and do not measure it.
 * @param variables more of its environment.
 */
export async function openGateway(
  setting: Setting,
  functionUrls: readonly string[],
  variables: Readonly<Record<string, string>> = {},
): Promise<Opened> {
  const environment = gatewayVariables(setting, functionUrls, variables);
  const config = readConfig(environment, { kubeconfig: setting.kubeconfig, port: 0 });
  const lines = new ProgramLines(`gateway ${setting.keyPrefix}`);
  const stop = new AbortController();
  const write = (line: string): void => lines.add(JSON.parse(line) as Line);
  const exited = runGateway(config, stop.signal, { write }).then((fatal) => {
    if (fatal !== undefined) lines.add({ text: messageOf(fatal) });
    lines.close();
    return fatal === undefined ? 0 : 1;
  });
  const kill = (): Promise<number> => {
    stop.abort();
    return exited;
  };
  const program = programOf(lines, exited, kill);
  const line = await program.line(({ msg }) => msg === 'listening');
  return { process: program, url: String(line['url']) };
}

/**
 * A function in the test's own process, which answers for each controller at `/NAME`: the same app as
 * `startFunctionProcess` serves.
 * @param lines what the program is taken to write.
 */
export async function openFunction(
  setting: Setting,
  controllers: readonly Controller[],
  lines = new ProgramLines('function'),
): Promise<Opened> {
  const server = createTriggerServer(controllerApp(controllers, functionVariables(setting)));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const exited = once(server, 'close').then(() => {
    lines.close();
    return 0;
  });
  const kill = (): Promise<number> => {
    server.close();
    server.closeAllConnections();
    return exited;
  };
  const program = programOf(lines, exited, kill);
  return { process: program, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

function programOf(lines: ProgramLines, exited: Promise<number>, kill: () => Promise<number>): Program {
  return {
    lines: lines.lines,
    get output() {
      return lines.text;
    },
    line: (matches) => lines.first(matches),
    exited,
    kill,
    end: kill,
  };
}
