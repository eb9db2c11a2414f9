import { requiredVariable, serveController } from 'levelhook/function/node';
import { observerController } from './observer-controller.ts';
import type { ObserverSpec } from './observer.ts';
import type { Line } from './program.ts';

const declared = JSON.parse(requiredVariable(process.env, 'OBSERVERS')) as ObserverSpec | ObserverSpec[];
const tell = (line: Line): void => void process.stdout.write(`${JSON.stringify(line)}\n`);
const observer = (spec: ObserverSpec) => observerController(spec, tell);

/** The program of observers, for tests that need a process of their own. */
await serveController(Array.isArray(declared) ? declared.map(observer) : observer(declared));
