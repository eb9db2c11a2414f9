const NAMESPACE = 'bench';
const PAYLOAD = 'x'.repeat(512);

/** A ConfigMap of about 4 KB, with the managedFields that a real one has. */
export function configMapOf(at: number, resourceVersion: number) {
  const name = `object-${String(at).padStart(7, '0')}`;
  const data = dataOf(at);
  return {
    metadata: {
      name,
      namespace: NAMESPACE,
      uid: `00000000-0000-4000-8000-${String(at).padStart(12, '0')}`,
      resourceVersion: String(resourceVersion),
      creationTimestamp: '2026-01-01T00:00:00Z',
      labels: { app: `app-${at % 100}` },
      managedFields: [
        {
          manager: 'bench',
          operation: 'Update',
          apiVersion: 'v1',
          time: '2026-01-01T00:00:00Z',
          fieldsType: 'FieldsV1',
          fieldsV1: { 'f:data': Object.fromEntries(['.', ...Object.keys(data)].map((key) => [`f:${key}`, {}])) },
        },
      ],
    },
    data,
  };
}

export function dataOf(at: number): Record<string, string> {
  return Object.fromEntries(Array.from({ length: 7 }, (_, field) => [`key-${field}`, `${at} ${PAYLOAD}`]));
}
