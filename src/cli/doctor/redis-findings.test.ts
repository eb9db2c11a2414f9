import { describe, expect, it } from 'vitest';
import { serverFacts } from '../../ground/redis/redis-server.ts';
import { Diagnoses } from './diagnosis.ts';
import { describeUsage, judgeServer } from './redis-findings.ts';

function judged(info: string, config: { policy: string | undefined; save: string | undefined }): string[] {
  const findings = new Diagnoses();
  judgeServer(findings, serverFacts(info, config));
  return findings.all.map(({ level, text }) => `${level}: ${text}`);
}

describe('a Redis server', () => {
  it('is good', () => {
    const info = 'redis_version:7.0.15\nrole:master\naof_enabled:1\nused_memory:1048576\nmaxmemory:0\n';
    expect(judged(info, { policy: 'noeviction', save: '' })).toEqual([
      'ok: Redis 7.0.15',
      'ok: its role is master',
      'ok: maxmemory-policy is noeviction',
      'ok: it keeps an append-only file',
      'ok: memory used: 1.0 MiB, no maxmemory',
    ]);
  });

  it('has problems that stop a gateway, and warnings', () => {
    const info =
      'redis_version:6.0.1\nrole:slave\nmaster_host:m\nmaster_port:1\naof_enabled:0\nused_memory:1048576\nmaxmemory:1048576\n';
    const levels = judged(info, { policy: 'allkeys-lru', save: '' }).map((line) => line.split(':')[0]);
    expect(levels).toEqual(['problem', 'problem', 'problem', 'warning', 'warning']);
  });

  it('that tells nothing is a warning for each, not good', () => {
    expect(judged('', { policy: undefined, save: undefined })).toEqual([
      'warning: the server does not tell its version',
      'warning: the server does not tell its role',
      'warning: the server does not tell its maxmemory-policy: it must be noeviction',
      'warning: the server does not tell whether it keeps data on disk: check that with its provider',
      'warning: the server does not tell its memory',
    ]);
  });
});

describe('the keys', () => {
  const kinds = [{ kind: 'objects', keys: 1, bytes: 1_048_576 }] as const;
  const lines = (total: number, scanned: number, measured: number): string[] => {
    const findings = new Diagnoses();
    describeUsage(findings, { kinds, total, scanned, measured });
    return findings.all.map(({ text }) => text);
  };

  it('say what was counted', () => {
    expect(lines(1, 1, 1)).toEqual(['1 keys, all counted, memory of all measured:', '- objects: 1 key, 1.0 MiB']);
  });

  it('say what was extrapolated', () => {
    const [first] = lines(3000, 2000, 100);
    expect(first).toBe('3000 keys, extrapolated from the names of 2000, memory extrapolated from a sample of 100:');
  });
});
