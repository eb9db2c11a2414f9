/**
 * Called at the named points between two steps that a crash may separate. Does nothing in production. A test stops a
 * component there for good, to show that the next gateway completes the interrupted work.
 */
export type Checkpoint = (point: CheckpointName) => Promise<void>;

export type CheckpointName =
  | 'apply:before-script'
  | 'apply:after-script'
  | 'relay:before-add'
  | 'relay:after-add'
  | 'relay:after-delete'
  | 'list:begun'
  | 'list:before-deletes'
  | 'list:before-version'
  | 'initial:between-keys'
  | 'initial:before-mark'
  | 'recovery:before-relist'
  | 'recovery:before-renew';

export const noCheckpoint: Checkpoint = async () => {};
