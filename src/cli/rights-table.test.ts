import { expect, it } from 'vitest';
import { describeRights } from './rights-table.ts';

const rowsOf = (
  rule: { verbs: string[]; apiGroups: string[]; resources: string[]; resourceNames?: string[] },
  used: string,
): string[] => {
  const [verb = '', resource = ''] = used.split(' ');
  const text = describeRights({
    namespace: 'a',
    used: [{ verb, resource, atMs: 1 }],
    granted: [rule],
    incomplete: false,
  });
  return text.split('\n').map((line) => line.replaceAll(/ +/g, ' '));
};

const core = { verbs: ['update'], apiGroups: [''] };
const apps = { verbs: ['*'], apiGroups: ['apps'] };

it.each([
  [{ ...core, resources: ['configmaps'] }, 'update configmaps', 'update configmaps - 1970'],
  [{ ...core, resources: ['configmaps'] }, 'update configmaps/status', 'update configmaps - never'],
  [{ ...core, resources: ['configmaps/status'] }, 'update configmaps/status', 'update configmaps/status - 1970'],
  [{ ...core, resources: ['*'] }, 'update apps/deployments', 'update * - never'],
  [{ ...core, apiGroups: ['*'], resources: ['deployments'] }, 'update apps/deployments', 'update */deployments - 1970'],
  [{ ...core, apiGroups: ['*'], resources: ['*/scale'] }, 'update apps/deployments/scale', 'update */*/scale - 1970'],
  [{ ...apps, resources: ['deployments'] }, 'patch apps/deployments', '* apps/deployments - 1970'],
  [{ ...apps, resources: ['deployments'], resourceNames: ['x', 'y'] }, 'get pods', '* apps/deployments x,y never'],
  [{ ...core, verbs: ['watch'], resources: ['pods'] }, 'get pods', 'watch pods - not seen here'],
  [{ ...core, resources: ['pods/finalizers'] }, 'update pods', 'update pods/finalizers - not seen here'],
])('the right %j after the use of "%s" is shown as "%s"', (rule, used, row) => {
  expect(rowsOf(rule, used)[1]).toMatch(new RegExp(`^${row.replaceAll('*', '\\*')}`));
});

it('rights to write that were never used stand first and are counted, and what cannot be listed is said', () => {
  const granted = [{ verbs: ['get', 'update', 'delete'], apiGroups: [''], resources: ['pods'] }];
  const used = [{ verb: 'update', resource: 'pods', atMs: 1 }];
  const lines = describeRights({ namespace: 'a', used, granted, incomplete: true }).split('\n');
  expect(lines.map((line) => line.split(' ')[0])).toEqual(['VERB', 'delete', 'get', 'update', '1', 'the', '']);
  expect(lines[4]).toBe('1 of 2 rights to write in the namespace a were never used; webhooks may need them');
  const none = describeRights({ namespace: 'a', used: [], granted: [], incomplete: false });
  expect(none).toBe('its ServiceAccount has no rights in the namespace a\n');
});
