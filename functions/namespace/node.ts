import { serveController } from 'levelhook/function/node';
import { namespace } from './controller.ts';

await serveController(namespace);
