-- Puts objects of a view under other indexes: the backfill of an index that was declared after they were cached.
--
-- KEYS[1] view    HASH
-- KEYS[2] entries HASH  key -> version \n uid \n T? \n index entry ...
-- ARGV[1] ID of the writer: refused when the view carries another
-- ARGV[2] prefix of an index entry's SET (same hash tag as KEYS)
-- then    three each: key, entry as it was read, entry as it shall be
--
-- Answer: number of objects moved, or -1 when the writer is another and nothing was done. An object that has changed
-- since its entry was read is left alone: the writer that changed it knew of the new index.

if redis.call('HGET', KEYS[1], 'writerId') ~= ARGV[1] then
  return -1
end

-- The lines after the third, as a set.
local function indexes_of(entry)
  local found, line = {}, 0
  for text in string.gmatch(entry .. '\n', '([^\n]*)\n') do
    line = line + 1
    if line > 3 and text ~= '' then found[text] = true end
  end
  return found
end

local moved = 0
for at = 3, #ARGV, 3 do
  local key, from, to = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  if from ~= to and redis.call('HGET', KEYS[2], key) == from then
    local old, new = indexes_of(from), indexes_of(to)
    for index in pairs(old) do
      if not new[index] then redis.call('SREM', ARGV[2] .. index, key) end
    end
    for index in pairs(new) do
      if not old[index] then redis.call('SADD', ARGV[2] .. index, key) end
    end
    redis.call('HSET', KEYS[2], key, to)
    moved = moved + 1
  end
end
return moved
