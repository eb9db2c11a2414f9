/** A line of two texts: in both, in the first only, or in the second only. */
export interface DiffLine {
  readonly side: 'both' | 'left' | 'right';
  readonly text: string;
}

/** Beyond this many pairs of lines the middle of the texts counts as different as a whole. */
const MOST_PAIRS = 1_000_000;

/** The difference of two texts, line by line: the longest common subsequence between their common ends. */
export function diffLines(left: string, right: string): DiffLine[] {
  const [a, b] = [left.split('\n'), right.split('\n')];
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head += 1;
  let tail = 0;
  while (tail < Math.min(a.length, b.length) - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail += 1;
  const same = (text: string): DiffLine => ({ side: 'both', text });
  return [
    ...a.slice(0, head).map(same),
    ...diffMiddle(a.slice(head, a.length - tail), b.slice(head, b.length - tail)),
    ...a.slice(a.length - tail).map(same),
  ];
}

function diffMiddle(a: readonly string[], b: readonly string[]): DiffLine[] {
  const lines: DiffLine[] = [];
  if (a.length * b.length > MOST_PAIRS) {
    for (const text of a) lines.push({ side: 'left', text });
    for (const text of b) lines.push({ side: 'right', text });
    return lines;
  }
  const width = b.length + 1;
  // The length of the longest common subsequence of the rests after each pair of places.
  const lengths = new Uint32Array((a.length + 1) * width);
  const at = (i: number, j: number): number => lengths[i * width + j] ?? 0;
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      lengths[i * width + j] = a[i] === b[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
    }
  }
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    const [left, right] = [a[i], b[j]];
    if (left !== undefined && left === right) {
      lines.push({ side: 'both', text: left });
      i += 1;
      j += 1;
    } else if (left !== undefined && (right === undefined || at(i + 1, j) >= at(i, j + 1))) {
      lines.push({ side: 'left', text: left });
      i += 1;
    } else {
      lines.push({ side: 'right', text: right ?? '' });
      j += 1;
    }
  }
  return lines;
}
