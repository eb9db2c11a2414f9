import { serveController } from 'levelhook/function/node';
import { endpointslice } from './controller.ts';

await serveController(endpointslice);
