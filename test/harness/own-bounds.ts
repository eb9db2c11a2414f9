import { CpuBudgets } from '../../src/gateway/controller/cel/cpu-budget.ts';
import type { ControllerBounds } from '../../src/gateway/controller/dispatch/dispatcher.ts';
import { HeldBytes } from '../../src/gateway/controller/endpoint/held-bytes.ts';

/** Of a controller that shares its gateway with no other. */
export function ownBounds(): ControllerBounds {
  const held = new HeldBytes();
  const budget = new CpuBudgets().of('own');
  return { budget, reviewBudget: () => budget, openHold: () => held.open('own'), admitLine: () => ({}) };
}
