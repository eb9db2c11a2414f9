import { serveFunction } from 'levelhook/function/node';
import { appOf } from '../lib/app.ts';
import { deployment } from './controller.ts';

await serveFunction(appOf(deployment), process.env);
