import { serveController } from 'levelhook/function/node';
import { deployment } from './controller.ts';

await serveController(deployment);
