import { type Clock, NewestMap, SharedRoom, TenantTurns } from '../../../core/index.ts';
import { LoginUnavailableError } from './identity.ts';

/**
 * Questions that wait or are under way. One asker alone may have half, see `SharedRoom`; an address that is new, one.
 */
const PLACES = { users: 100, newcomers: 100, guessers: 50 };
/** Questions at the apiserver: others wait, and their askers take turns. */
const AT_ONCE = 8;
/** Those of newcomers, and as many of guessers. */
const AT_ONCE_UNKNOWN = 2;
/** How long an address that has sent a wrong token is no newcomer. */
const GUESSER_MS = 600_000;
const MAX_GUESSERS = 10_000;

/** Questions about tokens that nobody is known to have. */
interface Strangers {
  /** No user's name, see `ofUser`. */
  readonly name: string;
  readonly room: SharedRoom;
  readonly turns: TenantTurns;
}

/**
 * Decides which questions the apiserver is asked next, and refuses those beyond a bound. Anyone can send guesses, from
 * many addresses. So users, addresses that have sent no wrong token lately, and the other addresses have places of
 * their own each, and most of the questions at the apiserver are left to users.
 */
export class ReviewTurns {
  readonly #clock: Pick<Clock, 'now'>;
  readonly #turns = new TenantTurns(AT_ONCE);
  readonly #users = new SharedRoom(PLACES.users);
  readonly #newcomers = strangers('newcomers');
  readonly #guessers = strangers('guessers');
  /** When each address has sent a wrong token. */
  readonly #guessedAtMs = new NewestMap<string, number>(MAX_GUESSERS);

  constructor(clock: Pick<Clock, 'now'>) {
    this.#clock = clock;
  }

  /**
   * Asks on behalf of a user whose token is or was valid.
   * @param user begins with `of `.
   * @throws LoginUnavailableError when too many questions wait; errors of `ask`.
   */
  async ofUser<Answer>(user: string, ask: () => Promise<Answer>): Promise<Answer> {
    return inRoom(this.#users, user, false, () => this.#turns.run(user, ask));
  }

  /**
   * Asks about a token that may be a guess.
   * @param ask resolves to undefined when it is.
   * @throws LoginUnavailableError when too many questions wait; errors of `ask`.
   */
  async ofAddress<Answer>(address: string, ask: () => Promise<Answer | undefined>): Promise<Answer | undefined> {
    const isNew = this.#isNew(address);
    const { name, room, turns } = isNew ? this.#newcomers : this.#guessers;
    const answer = await inRoom(room, address, isNew, () => turns.run(address, () => this.#turns.run(name, ask)));
    if (answer === undefined) this.#guessedAtMs.set(address, this.#clock.now());
    return answer;
  }

  /** Whether an address has sent no wrong token lately, nor another one that is not checked yet. */
  #isNew(address: string): boolean {
    const { room } = this.#newcomers;
    const guessedAtMs = this.#guessedAtMs.get(address) ?? -Infinity;
    if (this.#clock.now() - guessedAtMs < GUESSER_MS || room.takenBy({ name: address }) > 0) return false;
    return room.taken < PLACES.newcomers;
  }
}

function strangers(name: keyof typeof PLACES): Strangers {
  return { name, room: new SharedRoom(PLACES[name]), turns: new TenantTurns(AT_ONCE_UNKNOWN) };
}

/** @param takesAll whether the asker has no share, but may take all that is left. */
async function inRoom<Answer>(
  room: SharedRoom,
  name: string,
  takesAll: boolean,
  work: () => Promise<Answer>,
): Promise<Answer> {
  if (!room.take({ name, isKnown: takesAll })) throw new LoginUnavailableError('too many logins are being checked');
  try {
    return await work();
  } finally {
    room.giveBack({ name });
  }
}
