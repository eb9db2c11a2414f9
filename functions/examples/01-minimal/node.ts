import { serveController } from 'levelhook/function/node';
import { greeting } from './greeting.ts';

await serveController(greeting);
