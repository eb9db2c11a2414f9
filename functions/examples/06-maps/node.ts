import { serveController } from 'levelhook/function/node';
import { configHash } from './config-hash.ts';

await serveController(configHash);
