import { expect, it } from 'vitest';
import type { WatchEvent } from '../reflector/watch-event.ts';
import { ViewAge } from './view-age.ts';

const object = { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'a', uid: 'u', resourceVersion: '7' } };
const bookmark: WatchEvent = { kind: 'bookmark', version: '7' };
const changed: WatchEvent = { kind: 'changed', object };
const listed: WatchEvent = { kind: 'listed', object };
const init: WatchEvent = { kind: 'init', rewound: false };
const initDone: WatchEvent = { kind: 'init-done', version: '7', list: 1 };

it('a watch moves it to when the last line was read that is applied', () => {
  const age = new ViewAge(10);
  expect(age.shownMs).toBe(10);
  age.applied({ events: [changed, changed], fromMs: 20, toMs: 25 });
  expect(age.shownMs).toBe(25);
  age.applied({ events: [bookmark], fromMs: 60, toMs: 60 });
  expect(age.shownMs).toBe(60);
});

it('a list moves it at its end, to its beginning, and what changes meanwhile does not', () => {
  const age = new ViewAge(10);
  age.applied({ events: [init, listed], fromMs: 20, toMs: 30 });
  age.applied({ events: [listed, changed], fromMs: 40, toMs: 50 });
  expect(age.shownMs).toBe(10);
  age.applied({ events: [listed, initDone], fromMs: 60, toMs: 70 });
  expect(age.shownMs).toBe(20);
  age.applied({ events: [changed], fromMs: 80, toMs: 80 });
  expect(age.shownMs).toBe(80);
});

it('a list that begins anew counts from its new beginning, and the watch behind it in the same chunk counts', () => {
  const age = new ViewAge(10);
  age.applied({ events: [init, listed], fromMs: 20, toMs: 30 });
  age.applied({ events: [init, listed, initDone], fromMs: 40, toMs: 50 });
  expect(age.shownMs).toBe(40);
  age.applied({ events: [init, initDone, changed], fromMs: 60, toMs: 70 });
  expect(age.shownMs).toBe(70);
});

it.each<WatchEvent>([{ kind: 'gone', list: 2 }, { kind: 'unserved' }])(
  'there is none while the resource is not served ($kind), until its next list',
  (end) => {
    const age = new ViewAge(10);
    age.applied({ events: [end], fromMs: 20, toMs: 20 });
    expect(age.shownMs).toBeUndefined();
    age.applied({ events: [init, initDone], fromMs: 30, toMs: 31 });
    expect(age.shownMs).toBe(30);
  },
);
