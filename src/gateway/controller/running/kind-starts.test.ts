import { expect, it } from 'vitest';
import { UserError } from '../../../core/index.ts';
import { KindStarts } from './kind-starts.ts';

it('a tenant begins 200 kinds at once and one each ten seconds, whatever the others do', () => {
  let nowMs = 0;
  const starts = new KindStarts({ now: () => nowMs });
  starts.begin('shop', 199);
  starts.begin('shop', 0);
  // The last token pays for all kinds of one declaration.
  starts.begin('shop', 3);
  expect(() => starts.begin('shop', 1)).toThrow(UserError);
  expect(() => starts.begin('shop', 1)).toThrow('one more may begin in 30 s');
  starts.begin('shop', 0);
  starts.begin('other', 200);
  nowMs = 29_000;
  expect(() => starts.begin('shop', 1)).toThrow('in 1 s');
  nowMs = 30_000;
  starts.begin('shop', 1);
  expect(() => starts.begin('shop', 1)).toThrow('in 10 s');
});
