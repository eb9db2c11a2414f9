/** Values that the charts refuse, and what Helm says. */
export const REFUSALS: readonly [chart: 'levelhook' | 'levelhook-functions', values: string, message: RegExp][] = [
  ['levelhook', 'replicas: two', /at '\/replicas': got string, want integer/],
  ['levelhook', 'replica: 3', /additional properties 'replica' not allowed/],
  ['levelhook', 'settings: { LEVELHOOK_LOGLEVEL: debug }', /at '\/settings': .*'LEVELHOOK_LOGLEVEL' not allowed/],
  // What the chart makes of other values.
  ['levelhook', 'settings: { LEVELHOOK_PORT: 80 }', /at '\/settings': .*'LEVELHOOK_PORT' not allowed/],
  ['levelhook', 'redis: { url: "redis://user:password@redis" }', /at '\/redis\/url': .*does not match pattern/],
  ['levelhook', 'redis: { url: "http://redis" }', /at '\/redis\/url': .*does not match pattern/],
  ['levelhook', 'image: { digest: latest }', /at '\/image\/digest': .*does not match pattern/],
  // Numbers in place of names: YAML reads an unquoted 2024 as one.
  ['levelhook', 'secrets: { existingSecret: 2024 }', /at '\/secrets\/existingSecret': got number, want string/],
  [
    'levelhook',
    'networkPolicy: { redisNamespaces: [Shop] }',
    /at '\/networkPolicy\/redisNamespaces\/0': .*does not match/,
  ],
  ['levelhook', 'rbac: { reads: [{ resources: [pods] }] }', /at '\/rbac\/reads\/0': missing property 'apiGroups'/],
  ['levelhook', 'monitoring: { rules: { enable: true } }', /at '\/monitoring\/rules': .*'enable' not allowed/],
  ['levelhook', 'rbac: { credentials: { own: { enabled: true } } }', /at '\/rbac\/credentials': .*'own' not allowed/],
  [
    'levelhook',
    'settings: { LEVELHOOK_METRICS_LOGIN: true }\nmonitoring: { serviceMonitor: { enabled: true } }',
    /LEVELHOOK_METRICS_LOGIN asks Prometheus for a login: set monitoring.serviceMonitor.login/,
  ],
  [
    'levelhook',
    'monitoring: { serviceMonitor: { enabled: true, login: { tokenSecret: { name: a } } } }',
    /login sends a token, which needs https: set tls.secretName/,
  ],
  [
    'levelhook',
    'webhooks: { secretName: a, generate: true }',
    /webhooks: secretName has a certificate, and generate makes one: set one of them/,
  ],
  [
    'levelhook-functions',
    'functions: { a: { image: a, spec: { for: {}, credentials: proxy } } }',
    /functions.a: credentials: proxy needs a function at https/,
  ],
  ['levelhook-functions', 'functions: { a: { image: a } }', /at '\/functions\/a': missing property 'spec'/],
  ['levelhook-functions', 'functions: { A_b: { image: a, spec: { for: {} } } }', /'A_b' not allowed/],
  [
    'levelhook-functions',
    'functions: { a: { image: a, spec: {} } }',
    /at '\/functions\/a\/spec': missing property 'for'/,
  ],
  ['levelhook-functions', 'functions: { a: { image: a, spec: { for: {}, endpoint: {} } } }', /\/spec\/endpoint'/],
  [
    'levelhook-functions',
    'functions: { a: { image: a, spec: { for: {} }, signingSecret: 2024 } }',
    /at '\/functions\/a\/signingSecret': got number, want string/,
  ],
  [
    'levelhook-functions',
    'functions: { a: { image: a, spec: { for: {} }, runtime: lambda } }',
    /\/runtime': value must be one of 'deployment', 'knative'/,
  ],
];
