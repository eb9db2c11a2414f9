import { serveFunction } from 'levelhook/function/node';
import { appOf } from '../lib/app.ts';
import { replicaset } from './controller.ts';

await serveFunction(appOf(replicaset), process.env);
