--[[
Tells users and administrators how long jobs like theirs run, when they are submitted. Slurm's plugin job_submit/lua.

Unless SOFT is set, it never shortens a time limit that a user gave. It never sets time_min (Slurm would shorten the
limit by it, and kill at it), and never refuses a job. A job of which nothing is predicted passes unchanged, and so does
every job if the table is missing, old or damaged, or this script fails.

Install: copy to the folder of slurm.conf, add `JobSubmitPlugins=lua` there, and write the table each day:
  sojourn serve annotate BUNDLE sacct.txt --reader slurm --consumer slurm-limits --output /etc/slurm/sojourn_limits.tsv
--]]

local TABLE = os.getenv("SOJOURN_LIMITS") or "/etc/slurm/sojourn_limits.tsv"
local FILL = false -- true: a job WITHOUT a limit gets the predicted one, where that is longer than the partition's default
local SOFT = false -- true: Slurm plans with the predicted limit if that is shorter, and kills no job at it (`is_soft`)
local CONFIG = os.getenv("SLURM_CONF") or "/etc/slurm/slurm.conf" -- read if SOFT
local TELL_USER = true -- a line on the user's terminal where the limit is missing, too short or more than twice as long
local MAX_AGE_S = 7 * 86400 -- an older table is not used
local CHECK_S = 60 -- the file is read again after so many seconds, at the earliest

local limits, columns, level, read_at, is_planned = nil, {}, 0, nil, false

-- Names as the table has them: what is no plain character is %XX, so that no name can look like something else.
local function encoded(name)
    return (name:gsub("[^%w_.@+-]", function(sign) return string.format("%%%02X", sign:byte()) end))
end

-- Whether slurm.conf says that no job is killed at its limit, in any partition. If it includes other files: not known.
local function is_soft()
    local file = io.open(CONFIG, "r")
    if not file then return false end
    local text, is_everywhere = file:read("*a"):gsub("#[^\n]*", ""):gsub("\\\r?\n", " "):upper(), false
    file:close()
    for line in text:gmatch("[^\r\n]+") do
        if line:match("^%s*INCLUDE%s") then return false end
        local value = line:match("OVERTIMELIMIT%s*=%s*(%S+)")
        if value and value ~= "UNLIMITED" then return false end
        if value and line:match("^%s*OVERTIMELIMIT") then is_everywhere = true end
    end
    return is_everywhere
end

-- The table is data and is parsed, never run: job names are chosen by users.
local function read_table(now)
    read_at, limits, is_planned = now, nil, SOFT and is_soft()
    local file = io.open(TABLE, "r")
    if not file then return end
    local found, made = {}, nil
    columns, level = {}, 0
    for line in file:lines() do
        local key, value = line:match("^([^\t]+)\t([^\t]+)$")
        if key == "columns" then
            for name in value:gmatch("[^,]+") do columns[#columns + 1] = name end
        elseif key == "level" and value:match("^0%.%d+$") then level = tonumber(value)
        elseif key == "made" and value:match("^%d+$") then made = tonumber(value)
        elseif key and value:match("^%d%d?%d?%d?%d?%d?$") then found[key] = tonumber(value) end
    end
    file:close()
    if made and now - made <= MAX_AGE_S and level > 0 and #columns > 0 then limits = found end
end

local function first(...)
    for index = 1, select("#", ...) do
        local value = select(index, ...)
        if value ~= nil and value ~= "" then return value end
    end
end

-- What the job is, under the names of the table's columns; nil where it is not known.
local function named(job, part_list)
    local partition = job.partition
    if not partition then
        for name, part in pairs(part_list or {}) do
            if part.flag_default == 1 then partition = name end
        end
    end
    return {account = first(job.account, job.default_account), user = job.user_name, job_name = job.name,
            partition = partition}
end

-- The finest entry that fits: all columns, then without the job's name, then without the partition, too.
local function predicted_minutes(names)
    for _, left_out in ipairs({{}, {job_name = true}, {job_name = true, partition = true}}) do
        local parts = {}
        for index, column in ipairs(columns) do
            if left_out[column] then parts[index] = "*"
            elseif names[column] then parts[index] = encoded(names[column])
            else parts[index] = "" end
        end
        local minutes = limits[table.concat(parts, "|")]
        if minutes then return minutes end
    end
end

local function said(minutes)
    return string.format("%02d:%02d:00", math.floor(minutes / 60), minutes % 60)
end

local function is_limit(minutes)
    return minutes ~= nil and minutes ~= slurm.NO_VAL and minutes ~= slurm.INFINITE
end

local function advise(job, part_list)
    local now = os.time()
    if read_at == nil or now - read_at >= CHECK_S or now < read_at then read_table(now) end
    if not limits then return end
    local names = named(job, part_list)
    local minutes = predicted_minutes(names)
    if not minutes or minutes < 1 then return end
    local share = string.format("%g %% of such jobs end within %s", 100 * level, said(minutes))
    local limit, note, is_ours = job.time_limit, nil, not first(job.admin_comment)
    if is_ours then job.admin_comment = "sojourn: " .. share end
    if not is_limit(limit) then
        note = "no time limit was given"
        local part = (part_list or {})[names.partition or ""]
        -- without a default of its own a partition gives its longest limit: any other would be shorter
        if FILL and limit == slurm.NO_VAL and part and is_limit(part.default_time) and part.default_time < minutes then
            local longest = is_limit(part.max_time) and part.max_time or minutes
            job.time_limit = math.max(math.min(minutes, longest), part.default_time)
            note = "the time limit is set to " .. said(job.time_limit)
        end
    elseif is_planned and is_ours and minutes < limit then
        job.admin_comment = "sojourn: limit " .. limit .. " min; " .. share -- `slurm.sh overdue` reads it
        job.time_limit = minutes
        note = "planned with " .. said(minutes) .. ", the time limit of " .. said(limit) .. " stays"
    elseif limit < minutes then note = "the time limit of " .. said(limit) .. " may be too short"
    elseif limit > 2 * minutes then note = "a shorter limit than " .. said(limit) .. " may let the job start earlier"
    end
    if TELL_USER and note then slurm.log_user("sojourn: %s; %s", share, note) end
end

function slurm_job_submit(job_desc, part_list, submit_uid)
    local is_done, problem = pcall(advise, job_desc, part_list)
    if not is_done then pcall(slurm.log_info, "sojourn: no advice: %s", tostring(problem)) end
    return slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
    return slurm.SUCCESS
end

return slurm.SUCCESS
