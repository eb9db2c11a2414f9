export { kubeConfigTransport, sharedConnections } from './client-node-transport.ts';
export { redisCache, RedisReader } from './redis-reader.ts';
export { requiredVariable, serveFunction, type ServeOptions } from './serve.ts';
