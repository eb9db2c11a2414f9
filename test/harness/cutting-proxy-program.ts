import { CuttingProxy } from './cutting-proxy.ts';

/**
 * A cutting proxy as a program of its own: in a busy process it would be read slowly, and the apiserver end the watches
 * by itself. `cutting-proxy-program.ts https://127.0.0.1:PORT <ms between cuts>`; SIGUSR2 ends the cuts, and it tells
 * how many there were.
 */
const [, , server = '', everyMs = '3000'] = process.argv;
const tell = (what: object): boolean => process.stdout.write(`${JSON.stringify(what)}\n`);

const proxy = await CuttingProxy.start(server);
proxy.cutEvery(Number(everyMs));
process.on('SIGUSR2', () => {
  proxy.heal();
  tell({ msg: 'healed', cuts: proxy.cuts });
});
tell({ msg: 'listening', url: proxy.url });
