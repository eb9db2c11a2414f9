import { serveController } from 'levelhook/function/node';
import { endpointsliceMirroring } from './controller.ts';

await serveController(endpointsliceMirroring);
