import { MemoryQueueFixture } from '../harness/memory-queue.ts';
import { workQueueContract } from './work-queue/contract.ts';

workQueueContract('MemoryWorkQueue', async (clock) => new MemoryQueueFixture(clock));
