import { readFileSync } from 'node:fs';

import { describe, expect, it } from 'vitest';

import { packagePath } from '../package-root.ts';
import { etcdVersion, goVersion, kubernetesVersion } from './versions.ts';

function goMod(module: string): string {
  return readFileSync(packagePath('infra', 'control-plane', module, 'go.mod'), 'utf8');
}

describe('the versions of the control plane', () => {
  it('are those that its Go modules pin', () => {
    expect(goMod('module-kubernetes')).toContain(`k8s.io/kubernetes v${kubernetesVersion}\n`);
    expect(goMod('module-etcd')).toContain(`go.etcd.io/etcd/server/v3 v${etcdVersion}\n`);
    expect(goMod('module-kubernetes')).toContain(`\ngo ${goVersion}.`);
    expect(goMod('module-etcd')).toContain(`\ngo ${goVersion}.`);
  });
});
