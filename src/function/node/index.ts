export { kubeConfigTransport, sharedConnections } from './client-node-transport.ts';
export { redisCache, type RedisCacheOptions } from './redis-cache.ts';
export { serveController } from './serve-controller.ts';
export { nodeRunTransport } from './trigger-kubernetes.ts';
export { undiciFetch } from './undici-fetch.ts';
export { serveFunction, type ServeOptions } from './serve.ts';
export { requiredVariable } from '../environment.ts';
