import { expect, it } from 'vitest';
import { mixed } from './file-order.ts';

const SECONDS: Readonly<Record<string, number>> = { a: 60, b: 10, c: 30 };
const order = (files: string): string => mixed(files.split(''), (file) => SECONDS[file]).join('');

it('puts the longest file first, and behind each its share of the others by its time', () => {
  expect(order('9876543210cba')).toBe('a987654c321b0');
  expect(order('98cba')).toBe('a9c8b');
});

it('keeps each file where all are long, none is, or there is none', () => {
  expect(order('bca')).toBe('acb');
  expect(order('21')).toBe('21');
  expect(order('')).toBe('');
});
