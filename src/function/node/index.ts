export { kubeConfigTransport, sharedConnections } from './client-node-transport.ts';
export { redisCache, RedisReader, type RedisReaderOptions } from './redis-reader.ts';
export { requiredVariable, serveFunction, type ServeOptions } from './serve.ts';
