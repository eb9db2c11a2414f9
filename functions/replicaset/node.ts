import { serveController } from 'levelhook/function/node';
import { replicaset } from './controller.ts';

await serveController(replicaset);
